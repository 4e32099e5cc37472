//go:build !failpoints

package app

// failpoint is called at named points: here it is nil; see failpoint_on.go.
func failpoint() func(point string) { return nil }
