package statefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// errNoFile is the error for a path that is no file, such as a directory or a device.
var errNoFile = errors.New("it is not a regular file")

// InUseError is that another process has locked a file.
type InUseError struct {
	Path string
	PID  string // of that process, on its machine; empty: unknown
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != "" {
		who = "process " + e.PID
	}
	return fmt.Sprintf("%s is in use by %s, which holds a lock on %[1]s.lock", e.Path, who)
}

// Lock keeps other processes from using the file at path, until the returned lock is
// closed or this process ends. The lock is on a file beside it, because the file itself is
// replaced with each save. The path must be a regular file or not exist: replacing
// /dev/null would take it from the whole machine.
func Lock(path string) (io.Closer, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := os.ReadFile(f.Name()) // for people only
		err = &InUseError{Path: path, PID: strings.TrimSpace(string(pid[:min(len(pid), 20)]))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid()) // for people only
	}
	return held{f}, nil
}

// held is the file of a lock.
type held struct{ *os.File }

// Close ends the lock also where a program that this process starts just now still has the file.
func (h held) Close() error {
	return errors.Join(syscall.Flock(int(h.Fd()), syscall.LOCK_UN), h.File.Close())
}
