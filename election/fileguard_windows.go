package election

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// far is where the locked byte is.
func far() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// lockFile locks one byte far behind the text: a locked range cannot be read here, and the text must be.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, far())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, far())
}
