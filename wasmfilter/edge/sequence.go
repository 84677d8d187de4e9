package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
)

// sequence numbers the calls of this worker, so that the region tells repeated ones
// from new ones.
type sequence struct {
	// caller names the worker to the region. It is the worker's number at first.
	caller uint64
	// seq is the number of the last call, and never runs backwards: the region orders
	// by it what the worker states of its slots.
	seq uint64
	ack uint64 // the largest that was answered
}

// nextSeq takes the number of the next call. Where a call in flight is so far behind
// that the region could not tell it from a repeated one, the worker goes on under
// another name: that call stays the business of the old one.
func (w *Worker) nextSeq() uint64 {
	w.seq++
	for _, c := range w.calls {
		if c.line != nil && c.caller == w.caller && w.seq-c.seq >= lease.CallWindow {
			w.rename()
			break
		}
	}
	return w.seq
}

func (w *Worker) rename() {
	const golden = 0x9e3779b97f4a7c15 // odd: 2^64 names before one comes again
	if w.caller += golden; w.caller == 0 {
		w.caller = golden
	}
}

// name is the holder as a call names it: the process in the first half, the worker in
// the second. A region of the release before knows no workers and takes each for a
// holder of its own, whose calls it can tell apart.
func (w *Worker) name() []byte {
	name := append([]byte(nil), w.holder[:8]...)
	return binary.LittleEndian.AppendUint64(name, w.caller)
}
