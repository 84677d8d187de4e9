package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/exact"
)

// Lines are sorted by their time as far as they are in this window: Envoy writes a line when its request has ended.
const (
	window      = limit.Minute // of log time
	windowLines = 1 << 16
	windowBytes = 64 << 20
)

// entry is the request of a line, and which rules apply to it.
type entry struct {
	at     limit.Micros
	lasts  limit.Micros // its stream, if a rule counts streams; a day at most
	hits   []exact.Hit
	hashes []uint64 // of rule and key, by hits
	bytes  int      // of them
}

// Broken are lines that cannot be used.
type Broken struct {
	Lines int64    `json:"lines"`
	First []string `json:"first,omitempty"` // up to five: the number of the line, and the reason
}

// reader makes entries of a log, in the order of their time.
type reader struct {
	decider
	lines   int64 // read
	broken  Broken
	line    accesslog.Line
	waiting []*entry     // by time
	bytes   int          // of them
	newest  limit.Micros // that was read
	passed  limit.Micros // the time of the last entry that went
	late    int64        // entries that came when a later one had gone
}

// each calls do with each entry, while another goroutine reads on.
func (r *reader) each(log io.Reader, do func(*entry)) (err error) {
	batches := make(chan []*entry, 4)
	go func() {
		defer close(batches)
		var batch []*entry
		err = r.read(log, func(e *entry) {
			if batch = append(batch, e); len(batch) == 32 {
				batches <- batch
				batch = nil
			}
		})
		batches <- batch
	}()
	for batch := range batches {
		for _, e := range batch {
			do(e)
		}
	}
	switch {
	case err != nil || r.passed > 0:
		return err
	case r.broken.Lines > 0:
		return fmt.Errorf("none of %d lines can be used: %s", r.broken.Lines, r.broken.First[0])
	}
	return errors.New("the log is empty")
}

// read calls do with each entry.
func (r *reader) read(log io.Reader, do func(*entry)) error {
	in := bufio.NewReaderSize(log, accesslog.MaxLine)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(unpacked, accesslog.MaxLine)
	}
	for {
		line, err := in.ReadSlice('\n')
		r.lines++
		if errors.Is(err, bufio.ErrBufferFull) {
			r.reject(fmt.Errorf("has more than %d bytes", accesslog.MaxLine))
			for line = nil; errors.Is(err, bufio.ErrBufferFull); {
				_, err = in.ReadSlice('\n')
			}
		}
		if len(bytes.TrimSpace(line)) > 0 {
			r.take(line, do)
		}
		if errors.Is(err, io.EOF) {
			r.pass(do, true)
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", r.lines, err)
		}
	}
}

func (r *reader) reject(err error) {
	if r.broken.Lines++; len(r.broken.First) < 5 {
		r.broken.First = append(r.broken.First, fmt.Sprintf("line %d: %v", r.lines, err))
	}
}

// take takes a line, and calls do with entries that can go.
func (r *reader) take(line []byte, do func(*entry)) {
	l := &r.line
	err := l.Parse(line)
	at := limit.Micros(l.Time.UnixMicro())
	switch {
	case err != nil:
	case at <= limit.Day:
		err = errors.New("time: is missing, or before 1970; see docs/access-log.md")
	case l.Request.Method == "" || l.Request.Path == "":
		err = errors.New("has no method or no path: no rule saw the request")
	}
	if err != nil {
		r.reject(err)
		return
	}
	e := &entry{at: at}
	r.match(e, l)
	e.bytes = cap(e.hits) * int(unsafe.Sizeof(exact.Hit{})+8)
	for i := range e.hits {
		e.bytes += len(e.hits[i].Key)
	}
	after, _ := slices.BinarySearchFunc(r.waiting, at+1, func(e *entry, at limit.Micros) int { return cmp.Compare(e.at, at) })
	r.waiting = slices.Insert(r.waiting, after, e)
	r.bytes, r.newest = r.bytes+e.bytes, max(r.newest, at)
	r.pass(do, false)
}

// pass lets entries go, at the end of the log all. One that is too late has the time of the one before.
func (r *reader) pass(do func(*entry), ended bool) {
	for len(r.waiting) > 0 && (ended || len(r.waiting) > windowLines || r.bytes > windowBytes || r.waiting[0].at <= r.newest-window) {
		e := r.waiting[0]
		r.waiting[0], r.waiting, r.bytes = nil, r.waiting[1:], r.bytes-e.bytes
		if e.at < r.passed {
			r.late++
			e.at = r.passed
		}
		r.passed = e.at
		do(e)
	}
}
