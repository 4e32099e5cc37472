//go:build failpoints

package config

import "time"

// leastEnded lets a test outwait the memory of ends. Only binaries for tests have it.
const leastEnded = time.Second
