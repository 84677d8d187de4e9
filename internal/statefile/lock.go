package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

var (
	// ErrInUse says that another process has the file.
	ErrInUse = errors.New("another process uses it")
	// ErrNoFile says that something else has the name, such as a directory or a device.
	ErrNoFile = errors.New("it is not a regular file")
)

// Lock keeps other processes from using the file at path, until the returned lock is
// closed or this process ends. It is taken on a file beside it, which stays: the file
// itself is replaced again and again. For that it must be a file, or nothing yet: who
// replaced /dev/null would take it from the whole machine.
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
