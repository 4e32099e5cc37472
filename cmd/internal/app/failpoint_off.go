//go:build !failpoints

package app

// failpoint returns the function to call at named points. This build has none; see failpoint_on.go.
func failpoint() func(point string) { return nil }
