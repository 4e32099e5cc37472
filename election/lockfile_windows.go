package election

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// far returns the position of the locked byte.
func far() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// lock locks one byte far past the text: a locked range cannot be read, and the text must be readable.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, far())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, far())
}
