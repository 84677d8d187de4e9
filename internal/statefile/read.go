package statefile

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// damagedError is the error for a file that is not as a Writer left it.
type damagedError struct{ What string }

func (e *damagedError) Error() string { return "damaged: " + e.What }

// Read checks the file at path and then passes its records to visit, in their order. visit
// must not keep a record; its error ends the reading. The error is [os.ErrNotExist] without
// a file, and a *damagedError for a file that is incomplete, foreign or of a newer
// layout. In these cases visit was not called.
func Read(path string, visit func(record []byte) error) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := read(f, func([]byte) error { return nil }); err != nil {
		return Header{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Header{}, err
	}
	return read(f, visit)
}

func read(f io.Reader, visit func([]byte) error) (h Header, err error) {
	r := &reader{in: bufio.NewReaderSize(f, 1<<16)}
	if h, err = r.header(); err != nil {
		return h, r.explain(err)
	}
	records := uint64(0)
	for {
		n, err := r.block()
		if err != nil {
			return h, r.explain(err)
		}
		if n == 0 {
			break
		}
		seen, err := r.records(visit)
		if err != nil {
			return h, err
		}
		records += seen
	}
	if got := binary.LittleEndian.Uint64(r.buf); got != records {
		return h, damaged("%d records, and the end counts %d", records, got)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return h, damaged("more behind the end")
	}
	return h, nil
}

// reader reads the parts of a file; buf is the last one.
type reader struct {
	in  *bufio.Reader
	buf []byte
}

// fill reads n bytes into buf. Memory grows with the bytes that are read, not with a
// damaged length.
func (r *reader) fill(n int) error {
	const step = 1 << 20
	r.buf = r.buf[:0]
	for len(r.buf) < n {
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, min(n-at, step))...)
		if _, err := io.ReadFull(r.in, r.buf[at:]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) header() (h Header, err error) {
	if err := r.fill(len(magic) + 8); err != nil {
		return h, err
	}
	if string(r.buf[:len(magic)]) != magic {
		return h, damaged("it is no state file of weir-regional")
	}
	found, n := binary.LittleEndian.Uint32(r.buf[len(magic):]), binary.LittleEndian.Uint32(r.buf[len(magic)+4:])
	if found != layout {
		return h, damaged("its layout is %d, and this release reads %d", found, layout)
	}
	if n > maxHeader {
		return h, damaged("header of %d bytes", n)
	}
	sum := crc32.Checksum(r.buf, castagnoli)
	if err := r.fill(int(n) + 4); err != nil {
		return h, err
	}
	head := r.buf[:n]
	if crc32.Update(sum, castagnoli, head) != binary.LittleEndian.Uint32(r.buf[n:]) {
		return h, damaged("checksum of the header")
	}
	if err := json.Unmarshal(head, &h); err != nil {
		return h, damaged("header: %v", err)
	}
	return h, nil
}

// block reads the next block into buf and returns its length. At the end of the file it
// returns 0, and buf has the number of records.
func (r *reader) block() (int, error) {
	if err := r.fill(8); err != nil {
		return 0, err
	}
	n, want := binary.LittleEndian.Uint32(r.buf), binary.LittleEndian.Uint32(r.buf[4:])
	sum, length := crc32.Checksum(r.buf[:4], castagnoli), int(n)
	switch {
	case n > maxBlock:
		return 0, damaged("block of %d bytes", n)
	case n == 0:
		length = 8
	}
	if err := r.fill(length); err != nil {
		return 0, err
	}
	if crc32.Update(sum, castagnoli, r.buf) != want {
		return 0, damaged("checksum of a block")
	}
	return int(n), nil
}

// records passes the records of the block to visit.
func (r *reader) records(visit func([]byte) error) (n uint64, err error) {
	for b := r.buf; len(b) > 0; n++ {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used) {
			return n, damaged("length of a record")
		}
		if err := visit(b[used : used+int(size)]); err != nil {
			return n, err
		}
		b = b[used+int(size):]
	}
	return n, nil
}

// explain turns an early end of the file into a damagedError.
func (r *reader) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends too early")
	}
	return err
}

func damaged(format string, args ...any) error {
	return &damagedError{What: fmt.Sprintf(format, args...)}
}
