package edge

import "github.com/weirlimit/weir/internal/quotapb/wire"

// Whatever requests come, a call keeps within the bounds of its receiver: what one
// client sends must not cost others their answer. What does not fit travels with
// the next call.
const (
	// envelopeSize bounds what a call has beside its wants: numbers, the holder, the
	// version of the rules, the PoP's name and trace parents.
	envelopeSize = 256 + wire.MaxPop + wire.MaxTraceParents*64
	// numbersSize bounds what a want has beside its rule and its key: some 16 numbers
	// of at most 10 bytes, each with a tag of at most 2, and lengths.
	numbersSize = 256
)

// fits counts one more want into the call that is being made; false if the message
// would become too long.
func (w *Worker) fits(p *policy, key []byte) bool {
	size := w.size + len(p.rule.Name) + len(key) + numbersSize
	if size > wire.MaxMessage {
		return false
	}
	w.size = size
	return true
}
