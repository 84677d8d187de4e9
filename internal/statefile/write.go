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
)

// bufferSize is how much is read and written at once, in bytes.
const bufferSize = 64 << 10

// Writer writes a file. The records come with [Writer.Put]; only [Writer.Commit] makes
// them the content of the file. It is not safe for concurrent use.
type Writer struct {
	path string
	file *os.File
	zip  *gzip.Writer
	out  *bufio.Writer // keeps the first error until it is flushed
}

// Create begins a file that will replace the one at path.
func Create(path string, h Header) (*Writer, error) {
	h.Layout = layout
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewWriterLevel(f, gzip.NoCompression)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w := &Writer{path: path, file: f, zip: z, out: bufio.NewWriterSize(z, bufferSize)}
	_, _ = w.out.WriteString(magic)
	w.Put(head)
	return w, nil
}

// Put adds a record, which the caller may change afterwards. Commit returns its error.
func (w *Writer) Put(record []byte) {
	_, _ = w.out.Write(binary.AppendUvarint(w.out.AvailableBuffer(), uint64(len(record))))
	_, _ = w.out.Write(record)
}

// Commit ends the file and replaces the old one. After an error the old one is unchanged.
// It returns the size in bytes.
func (w *Writer) Commit() (size int64, err error) {
	if err = errors.Join(w.out.Flush(), w.zip.Close()); err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		size, err = w.file.Seek(0, io.SeekCurrent)
	}
	if err := errors.Join(err, w.file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(w.path+".new"))
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		return 0, err
	}
	return size, SyncDir(filepath.Dir(w.path))
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
