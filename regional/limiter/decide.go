package limiter

import (
	"context"

	"github.com/weirlimit/weir/internal/lease"
)

// Fallback decides on requests from memory while a store does not answer, and
// remembers what it admitted, so that the store hears of it later. It is safe for
// concurrent use.
type Fallback interface {
	// Fall decides on an ask that was answered Unavailable. What was denied before
	// stays denied until its counter starts anew; for the rest the policy's
	// OnFailure decides. holders is among how many replicas a limit is shared under
	// rule.FailureLocal; 0: nobody knows.
	Fall(a *Ask, holders int) Verdict
}

// Verdict is what becomes of one ask of a request that is decided here.
type Verdict struct {
	// Admitted says that the need was granted, or that a failure lets it pass.
	Admitted bool
	// Degraded says why, where the store did not answer; Sound: it did.
	Degraded Degraded
	// Grant is the store's answer, for what a client is told. Unavailable with
	// Degraded.
	Grant lease.Grant
}

// Degraded is how a request was decided. The zero value is Sound.
type Degraded uint8

// The ways.
const (
	Sound        Degraded = iota // by the limit
	FailedAllow                  // on_failure: allow
	FailedDeny                   // on_failure: deny
	FailedLocal                  // by this replica's share of the limit
	FailedDenied                 // refused before the failure, and still
)

func (d Degraded) String() string {
	return [...]string{"sound", "allow", "deny", "local", "denied"}[min(int(d), 4)]
}

// A Judge decides on whole requests, for clients that cannot decide by themselves.
type Judge interface {
	// Judge decides on asks as [Store.Acquire] does and, where the store does not
	// answer by the deadline of ctx, by the rules' on_failure; verdicts has the
	// length of asks. Where that refuses a member of a group that others were
	// granted for, these give back what they got and are not admitted either.
	Judge(ctx context.Context, asks []Ask, verdicts []Verdict)
	// GiveBack returns what verdicts admitted: the request failed elsewhere.
	GiveBack(ctx context.Context, asks []Ask, verdicts []Verdict)
}
