package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

var (
	// ErrInUse is the error for a file that another process has locked.
	ErrInUse = errors.New("another process uses it")
	// ErrNoFile is the error for a path that is no file, such as a directory or a device.
	ErrNoFile = errors.New("it is not a regular file")
)

// Lock keeps other processes from using the file at path, until the returned lock is
// closed or this process ends. The lock is on a file beside it, because the file itself is
// replaced with each save. The path must be a regular file or not exist: replacing
// /dev/null would take it from the whole machine.
func Lock(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNoFile)
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
