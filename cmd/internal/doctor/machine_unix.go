//go:build unix

package doctor

import "syscall"

// fileLimit is how many files this process may have open. The Go runtime has raised it as far as it may, as it does in
// tarry serve.
func fileLimit() (uint64, bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Cur), true
}

// writable reports whether this user may make files in a directory.
func writable(dir string) error { return syscall.Access(dir, 2) }
