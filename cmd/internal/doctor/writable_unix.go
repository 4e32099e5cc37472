//go:build unix

package doctor

import "syscall"

// writable reports whether this user may make files in a directory.
func writable(dir string) error { return syscall.Access(dir, 2) }
