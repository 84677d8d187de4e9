package limiter

import (
	"hash/maphash"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Two processes with one id, copies of a running one for example, number their calls by
// themselves, and each has calls of its own dropped as repeated. What shows that there are two is
// what no network does to the calls of one:
//
//   - A number comes again with another content. A copy has the same.
//   - A call that is too far behind to be checked acknowledges the answer to another such call.
//     One process has gone on when that answer arrives: its next number is the largest. Only
//     a recording that is played again so late looks the same.
//
// It counts as a turn only if calls went on in between, as they do not when a process starts again
// under the id of before.

const (
	// mostSuspects bounds the workers of which calls are compared, some 8 KB each: those that
	// had a call dropped last.
	mostSuspects = 256
	// twinTurns is how many turns within turnMemory are reported.
	twinTurns = 3
	// comparedBytes is how much of a call is compared.
	comparedBytes = 4 << 10
)

// suspect is a worker of a holder of which a call was dropped within turnMemory.
type suspect struct {
	// calls has, by number, the low half of the number and a hash of the content, of calls that
	// were accepted since.
	calls  [lease.CallWindow]uint64
	behind [8]uint64 // numbers of the last calls that were too far behind, and were answered
	next   int       // in behind

	from    string       // address of the last call that was accepted
	went    bool         // one was accepted since the last turn
	dropped limit.Micros // when a call was dropped last
	turned  limit.Micros // when the last turn was
	turns   int
}

// suspectID is a worker of a holder.
type suspectID struct {
	holder HolderID
	worker uint64
}

// suspects are the suspects among the holders.
type suspects map[suspectID]*suspect

// call is what is compared of a call.
type call struct {
	seq, ack uint64
	content  uint64 // a hash
	from     string
	fresh    bool // it was accepted
	far      bool // it is too far behind to be checked
}

// compare notes a call of a worker. It reports whether that of another process was dropped, in
// turns with those of one at the address other.
func (all suspects) compare(id suspectID, c call, now limit.Micros) (other string, twin bool) {
	s := all[id]
	if s == nil {
		if c.fresh {
			return "", false
		}
		s = all.add(id)
	}
	if c.fresh {
		if since(s.dropped, now) >= turnMemory {
			delete(all, id)
		}
		s.calls[c.seq%lease.CallWindow] = c.tag()
		s.went, s.from = true, c.from
		return "", false
	}
	s.dropped = now
	if !s.differs(&c) || !s.went {
		return "", false
	}
	s.went = false
	if since(s.turned, now) >= turnMemory {
		s.turns = 0
	}
	s.turns, s.turned = s.turns+1, now
	return s.from, s.turns >= twinTurns
}

// add makes a worker a suspect, in the place of any other if there are too many.
func (all suspects) add(id suspectID) *suspect {
	for other := range all {
		if len(all) < mostSuspects {
			break
		}
		delete(all, other)
	}
	s := new(suspect)
	all[id] = s
	return s
}

// differs reports whether a call that was dropped is one of another process.
func (s *suspect) differs(c *call) bool {
	if c.far {
		acknowledged := false
		for _, seq := range s.behind {
			acknowledged = acknowledged || seq == c.ack && seq != 0
		}
		s.behind[s.next%len(s.behind)] = c.seq
		s.next++
		return acknowledged
	}
	tag := s.calls[c.seq%lease.CallWindow]
	return tag>>32 == c.seq&(1<<32-1) && tag != c.tag()
}

// tag is what is kept of a call.
func (c *call) tag() uint64 { return c.seq<<32 | c.content&(1<<32-1) }

var contentSeed = maphash.MakeSeed()

// content is a hash of what a call has brought, of its first bytes.
func (x *exchange) content() uint64 {
	b := x.in
	if len(b) == 0 { // it came in another encoding
		b = x.request.Append(nil)
	}
	return maphash.Bytes(contentSeed, b[:min(len(b), comparedBytes)])
}

// compare compares a call with others of its worker, and reports a twin.
func (s *Service) compare(x *exchange, fresh bool, now limit.Micros) {
	r := &x.request
	c := call{seq: r.Seq, ack: r.Ack, content: x.content(), from: x.from, fresh: fresh}
	if other, twin := s.holders.compare(x.holder, r.Worker, c, now); twin {
		s.metrics.twins.Inc()
		s.notices.twin(x, other)
	}
}
