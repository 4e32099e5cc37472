//go:build !failpoints

package config

import "time"

// leastEnded is the lower bound of ended.keep: three times the intake's AckWait, so that a push which comes again,
// because its acknowledgement was lost, meets the memory of its end.
const leastEnded = 90 * time.Second
