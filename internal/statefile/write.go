package statefile

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// bufferSize is how much is read and written at once, in bytes.
const bufferSize = 64 << 10

// Write replaces the file at path by one with the records that fill puts, each of which fill may change afterwards. holders
// is how many the store had. After an error the old file is unchanged. It returns the size in bytes.
func Write(path string, holders int, fill func(put func(record []byte))) (size int64, err error) {
	host, _ := os.Hostname() // for people only
	head, err := json.Marshal(Header{Layout: layout, Holders: holders, Saved: time.Now().UTC(), Host: host, PID: os.Getpid()})
	if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.NoCompression) // it is a level
	out := bufio.NewWriterSize(z, bufferSize)          // keeps the first error until it is flushed
	put := func(record []byte) {
		_, _ = out.Write(binary.AppendUvarint(out.AvailableBuffer(), uint64(len(record))))
		_, _ = out.Write(record)
	}
	_, _ = out.WriteString(magic)
	put(head)
	fill(put)
	if err = errors.Join(out.Flush(), z.Close()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return 0, err
	}
	return size, SyncDir(filepath.Dir(path))
}

// SyncDir makes a rename in a directory survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
