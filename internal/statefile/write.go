package statefile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// Writer writes a file. The records come with [Writer.Put]; only [Writer.Commit] makes
// them the content of the file. It is not safe for concurrent use.
type Writer struct {
	path    string
	file    *os.File
	block   []byte
	records uint64
	size    int64
	err     error // the first one
}

// Create begins a file that will replace the one at path.
func Create(path string, h Header) (*Writer, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, block: make([]byte, 0, blockSize+blockSize/4)}
	w.write(framed(head))
	return w, nil
}

// framed is the beginning of a file with this header.
func framed(head []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(magic), layout)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = append(out, head...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// Put adds a record, which the caller may change afterwards. Commit returns its error.
func (w *Writer) Put(record []byte) {
	w.block = binary.AppendUvarint(w.block, uint64(len(record)))
	w.block = append(w.block, record...)
	w.records++
	if len(w.block) >= blockSize {
		w.flush()
	}
}

// flush writes the block.
func (w *Writer) flush() {
	if len(w.block) == 0 {
		return
	}
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(w.block)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Update(crc32.Checksum(head[:4], castagnoli), castagnoli, w.block))
	w.write(head[:])
	w.write(w.block)
	w.block = w.block[:0]
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.file.Write(b)
	w.size += int64(n)
	w.err = err
}

// Commit ends the file and replaces the old one. After an error the old one is unchanged.
// It returns the size in bytes.
func (w *Writer) Commit() (int64, error) {
	w.flush()
	var end [16]byte
	binary.LittleEndian.PutUint64(end[8:], w.records)
	sum := crc32.Update(crc32.Checksum(end[:4], castagnoli), castagnoli, end[8:])
	binary.LittleEndian.PutUint32(end[4:], sum)
	w.write(end[:])
	if w.err == nil {
		w.err = w.file.Sync()
	}
	if err := errors.Join(w.err, w.file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(w.path+".new"))
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		return 0, err
	}
	return w.size, syncDir(filepath.Dir(w.path))
}

// syncDir makes a rename in a directory survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
