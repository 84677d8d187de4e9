package main

// #include "abi.h"
import "C"

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// mostKept is how many bytes are kept of a body: of JSON all, of an event stream those of one line.
const mostKept = 64 << 10

// body is that of a response of which numbers are needed: JSON, or an event stream whose events have JSON.
type body struct {
	paths  []string // of numbers
	found  map[string]string
	events bool
	kept   []byte // what is read when it has ended
	long   bool   // that is more than mostKept, and not kept
}

// read begins to read the body of the response of a stream, if its number is needed and it is not compressed.
func (w *worker) read(s *C.stream) {
	paths := w.vm.BodyPaths(uint32(s.id))
	if len(paths) == 0 {
		return
	}
	if encoding, _ := w.ResponseHeader("content-encoding"); encoding != "" && encoding != "identity" {
		return
	}
	kind, _ := w.ResponseHeader("content-type")
	w.bodies[uint32(s.id)] = &body{paths: paths, found: map[string]string{}, events: strings.HasPrefix(kind, "text/event-stream")}
	s.reads = true
}

// weirResponseBody takes some of the body of a response.
//
//export weirResponseBody
func weirResponseBody(number C.uint32_t, s *C.stream, chunks *C.buffer, count C.size_t) {
	defer recovered("http_filter_response_body")
	w := workerOf(number)
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bodies[uint32(s.id)]
	if b == nil {
		return
	}
	for _, c := range unsafe.Slice(chunks, int(count)) {
		b.take(unsafe.Slice((*byte)(unsafe.Pointer(c.ptr)), int(c.length)))
	}
}

// ResponseNumber returns a number of the body of the stream that ends.
func (w *worker) ResponseNumber(path string) (value string, ok bool) {
	b := w.bodies[uint32(w.current.id)]
	if b == nil {
		return "", false
	}
	b.end()
	value, ok = b.found[path]
	return value, ok
}

// take takes more of a body. Of an event stream it reads the lines that have ended.
func (b *body) take(chunk []byte) {
	for b.events {
		line, rest, ends := bytes.Cut(chunk, []byte{'\n'})
		if !ends {
			break
		}
		b.keep(line)
		b.line()
		chunk = rest
	}
	b.keep(chunk)
}

func (b *body) keep(more []byte) {
	if b.long = b.long || len(b.kept)+len(more) > mostKept; b.long {
		b.kept = nil
	} else {
		b.kept = append(b.kept, more...)
	}
}

// end reads what is kept.
func (b *body) end() {
	if b.events {
		b.line()
	} else {
		b.json(b.kept)
	}
}

// line reads the line of an event stream that is kept.
func (b *body) line() {
	if data, ok := bytes.CutPrefix(b.kept, []byte("data:")); ok {
		b.json(data)
	}
	b.kept, b.long = b.kept[:0], false
}

// json reads the numbers of a JSON document that has any. gjson needs a stack as deep as the document: a longer one could end
// the process.
func (b *body) json(text []byte) {
	if b.long {
		return
	}
	for _, path := range b.paths {
		last := path[strings.LastIndexByte(path, '.')+1:]
		if !bytes.Contains(text, []byte(last)) || !gjson.ValidBytes(text) {
			continue
		}
		if number := gjson.GetBytes(text, path); number.Type == gjson.Number {
			b.found[path] = number.Raw
		}
	}
}
