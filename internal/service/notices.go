package service

import (
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/wire"
)

// notices logs what is wrong with callers, each kind at most once a minute: whoever sends
// something wrong may send it often. It is safe for concurrent use.
type notices struct {
	log                                        *slog.Logger
	repeated, foreign, giveBacks, wants, calls repeat.Seldom
}

const (
	// runbook says what to do about a caller.
	runbook = "docs/runbooks/WeirCallerWrong.md"
	// maxNotice bounds what of a call's text gets into a line of the log.
	maxNotice = 300
)

// warn logs one kind, with who made the call; nil: nobody that is known.
func (n *notices) warn(kind *repeat.Seldom, x *exchange, text string, about ...any) {
	if !kind.Now() {
		return
	}
	if x != nil {
		about = append(about, x.caller())
	}
	n.log.Warn(text, append(about, "runbook", runbook)...)
}

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

// refuse counts a call that is refused as a whole, and logs it if its caller is at fault.
func (s *Service) refuse(err error, from string) {
	s.metrics.rejected.Inc()
	if errors.Is(err, errTooManyCalls) {
		s.metrics.noMemory.Inc()
	}
	var r *refusal
	if errors.As(err, &r) && r.caller {
		reason := err.Error()
		s.notices.warn(&s.notices.calls, nil, "call refused", "reason", reason[:min(len(reason), maxNotice)], "from", from)
	}
}
