//go:build !failpoints

package config

import "time"

// leastEnded is the lower bound of ended.keep: many times the intake's AckWait, so that a push that is redelivered,
// because its acknowledgement was lost, finds the record of its end.
const leastEnded = 90 * time.Second
