package engine

import (
	"context"

	"github.com/weirlimit/weir/internal/lease"
)

// Fallback decides on requests from memory while a store does not answer. It remembers
// what it admitted, and reports that to the store later. It is safe for concurrent use.
type Fallback interface {
	// Fall decides on an ask that was answered Unavailable. What was denied before
	// stays denied until its counter is as good as new; for the rest the policy's
	// OnFailure decides. holders is among how many replicas a limit is shared under
	// lease.FailureLocal; 0: unknown.
	Fall(a *Ask, holders int) Judgment
	// Refund takes back what Fall admitted as v: the request was rejected elsewhere.
	Refund(a *Ask, v *Judgment)
}

// Judgment is what becomes of one ask of a request.
type Judgment struct {
	// Admitted is true if the need was granted, or on_failure admits it.
	Admitted bool
	// Rejected is true if this ask itself was rejected. If neither Admitted nor Rejected is
	// true, another one of its group was rejected.
	Rejected bool
	// Degraded is how the ask was decided while the store did not answer; Sound: it did.
	Degraded Degraded
	// Grant is the store's answer, for the response to the client. With Degraded it is
	// Unavailable; Limit, Remaining, Reset and RetryAfter are then by the replica's memory.
	Grant lease.Grant
	// Unowed is the part of the need that is not owed although it was admitted without the
	// store, see [lease.Taken].
	Unowed int64
}

// Degraded is how a request was decided. The zero value is Sound.
type Degraded uint8

// The ways; those by on_failure are in the order of [lease.OnFailure].
const (
	Sound        Degraded = iota // by the limit
	FailedAllow                  // on_failure: allow
	FailedDeny                   // on_failure: deny
	FailedLocal                  // by this replica's share of the limit
	FailedDenied                 // it was denied before the failure, and stays so
)

var degradedNames = [...]string{"sound", "allow", "deny", "local", "denied"}

func (d Degraded) String() string { return degradedNames[min(int(d), len(degradedNames)-1)] }

// Failed is the judgment on an ask that the store did not answer.
func (p *Policy) Failed(f lease.Failed) Judgment {
	degraded := FailedAllow + Degraded(f.By)
	if f.Denied {
		degraded = FailedDenied
	}
	return Judgment{
		Admitted: f.Admitted,
		Rejected: !f.Admitted,
		Degraded: degraded,
		Grant:    lease.Grant{Status: lease.Unavailable, Limit: p.Terms.Capacity, Reset: f.Reset, RetryAfter: f.RetryAfter},
		Unowed:   f.Unowed,
	}
}

// A Judge decides on whole requests, for clients that cannot decide by themselves.
// It is safe for concurrent use.
type Judge interface {
	// Judge decides on asks as [Store.Acquire] does and, if the store does not answer by
	// the deadline of ctx, by the rules' on_failure; judgments has the length of asks. If
	// a member of a group is rejected so, the others give back what they were granted, and
	// are not admitted either.
	Judge(ctx context.Context, asks []Ask, judgments []Judgment)
	// GiveBack returns what judgments admitted, and makes them not admitted: the request
	// failed elsewhere. It ignores the deadline of ctx: units come back also if the client
	// no longer waits.
	GiveBack(ctx context.Context, asks []Ask, judgments []Judgment)
	// Forget drops the metrics of rules that are not live any more.
	Forget(live func(rule string) bool)
}
