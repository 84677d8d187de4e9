package limiter

import (
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/repeat"
)

// notices logs what is wrong with callers, each kind at most once a minute: whoever sends
// something wrong may send it often. It is safe for concurrent use.
type notices struct {
	log                              *slog.Logger
	lies, debts, wants, calls, twins repeat.Seldom
}

// mostNotice bounds what of a call's text gets into a line of the log.
const mostNotice = 300

// caller is who makes a call, for the log. The name of its PoP is what it states.
func (x *exchange) caller() slog.Attr {
	r := &x.request
	who := []any{"holder", hex.EncodeToString(x.holder[:]), "from", x.from}
	if r.Region != "" {
		who = append(who, "region", r.Region)
	}
	if r.Pop != "" {
		who = append(who, "pop", r.Pop[:min(len(r.Pop), wire.MaxPop)])
	}
	return slog.Group("", who...)
}

// lie logs a give-back or a debt that cannot be true.
func (n *notices) lie(x *exchange, l *lie) {
	if l.debt {
		if n.debts.Now() {
			n.log.Warn("a holder owes more units than its rule admits without a lease, and what is more does not count",
				x.caller(), "rule", l.rule, "units", l.units, "most", l.most,
				"remedy", "nothing, if the rule's limit, on_failure or overdraft was changed just now; else stop what calls from this address, unless it is a PoP or a replica of yours: then update it")
		}
		return
	}
	if n.lies.Now() {
		n.log.Warn("a holder gives back more units than it can have been granted, and none of them are taken back",
			x.caller(), "rule", l.rule, "units", l.units, "most", l.most,
			"remedy", "stop what calls from this address, unless it is a PoP or a replica of yours: then update it, and make sure that all replicas have the same rules, because one with a larger limit grants more")
	}
}

// twin logs that two processes have one id.
func (n *notices) twin(x *exchange, other string) {
	if n.twins.Now() {
		n.log.Warn("two processes call as one holder, and calls of one are dropped as repeated ones of the other", x.caller(), "other", other,
			"remedy", "restart one of them: it makes a new id when it starts. An id is copied with the memory of a process, by a snapshot of a virtual machine or a checkpoint of a container; or a client of your own has a fixed one")
	}
}

// want logs a want that is refused because of a field.
func (n *notices) want(x *exchange, field string) {
	if n.wants.Now() {
		n.log.Warn("a want is refused: a field is out of range", "field", field, x.caller(),
			"remedy", "run a filter and a weir-regional that are at most one release apart; stop what calls from this address if it is neither")
	}
}

// call logs a call that is refused as a whole.
func (n *notices) call(err error, from string) {
	if n.calls.Now() {
		reason := err.Error()
		n.log.Warn("a call is refused", "reason", reason[:min(len(reason), mostNotice)], "from", from)
	}
}

// refuse counts a call that is refused as a whole, and logs it if its caller is at fault. A
// certificate that is not allowed is logged by whoever refused it.
func (s *Service) refuse(err error, from string) {
	s.metrics.rejected.Inc()
	var field *RequestError
	var protocol *ProtocolError
	var malformed *wire.Error
	if errors.As(err, &field) || errors.As(err, &protocol) || errors.As(err, &malformed) || errors.Is(err, ErrTooManyHolders) || errors.Is(err, ErrTooManyOfAddress) {
		s.notices.call(err, from)
	}
}
