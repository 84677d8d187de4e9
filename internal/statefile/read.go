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
)

// Read checks the file at path and then passes its records to visit, in their order. visit
// must not keep a record; its error ends the reading. The error is [os.ErrNotExist] without
// a file, and states what is wrong with one that is incomplete, foreign or of another
// layout. In these cases visit was not called.
func Read(path string, visit func(record []byte) error) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := gzip.NewReader(f)
	if err == nil {
		_, err = io.Copy(io.Discard, z) // up to the checksum
	}
	if err != nil {
		return Header{}, explain(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Header{}, err
	}
	if err := z.Reset(f); err != nil {
		return Header{}, err
	}
	return read(&reader{in: bufio.NewReaderSize(z, bufferSize)}, visit)
}

// explain is what an error of gzip means for a file.
func explain(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("it ends too early")
	case errors.Is(err, gzip.ErrHeader):
		return errForeign
	}
	return damaged("%w", err)
}

func read(r *reader, visit func([]byte) error) (Header, error) {
	if begin, err := r.in.Peek(len(magic)); err != nil || string(begin) != magic {
		return Header{}, errForeign
	}
	_, _ = r.in.Discard(len(magic)) // has been peeked at
	if err := r.next(); err != nil {
		return Header{}, damaged("header: %w", err)
	}
	var h Header
	if err := json.Unmarshal(r.record, &h); err != nil {
		return Header{}, damaged("header: %w", err)
	}
	if h.Layout != layout {
		return Header{}, damaged("its layout is %d, and this release reads %d", h.Layout, layout)
	}
	for {
		err := r.next()
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err == nil {
			err = visit(r.record)
		}
		if err != nil {
			return h, err
		}
	}
}

// reader reads a file whose checksum is right, and with it all lengths.
type reader struct {
	in     *bufio.Reader
	record []byte // the last one
}

// next reads the next record; the error is io.EOF behind the last.
func (r *reader) next() error {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err
	}
	if uint64(cap(r.record)) < n {
		r.record = make([]byte, n, 2*n)
	}
	r.record = r.record[:n]
	if _, err := io.ReadFull(r.in, r.record); err != nil {
		return damaged("a record ends too early")
	}
	return nil
}

// errForeign is the error for a file of something else, or of a release that wrote no gzip.
var errForeign = damaged("it is no state file of weir-regional or weir-global in this layout")

func damaged(format string, args ...any) error { return fmt.Errorf("damaged: "+format, args...) }
