//go:build !failpoints

package app

// failpoint is who is told of named points: nobody; see failpoint_on.go.
func failpoint() func(point string) { return nil }
