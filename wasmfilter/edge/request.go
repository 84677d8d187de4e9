package edge

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/shedding"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// Outcome is what becomes of a request.
type Outcome uint8

// The outcomes.
const (
	Admit Outcome = iota
	Deny
	Wait // until the request is among Port.Decided
)

// Request is one request on its way through the rules. Its owner keeps it from
// [Worker.Decide] to [Worker.End] and may use it again after that. The zero value
// is ready to use.
type Request struct {
	// Stream is its owner's name for it; the worker does not look at it.
	Stream uint32
	// Outcome is the verdict; Wait until there is one.
	Outcome Outcome
	// Status is the HTTP status of a denial: that of the rule's rejections, or where the
	// region failed and the rule denies then that of its on_failure.
	Status int
	// Failed is true for such a denial: its response is not that of the rule's rejections.
	Failed bool
	// Degraded is true if a rule was decided without the region although it
	// should have been asked: by its on_failure, or because the table is full.
	Degraded bool
	// Blocked is true for a denial because the key is blocked.
	Blocked bool
	// RetryAfter is with a denial after how long the client should come back; 0: nobody
	// knows, because a stream has to end first, or the limit has never as much. The rule's
	// jitter is in it.
	RetryAfter lease.Millis
	// Waited is how long the request waited.
	Waited lease.Millis
	// WouldDeny names the shadow rules and candidates that would have rejected a request that
	// passes, as far as the PoP knew that without asking.
	WouldDeny []string
	// Shed is the shed rule that rejected the request; nil: none did. Class is then what the request is to it.
	Shed  *rule.Rule
	Class shed.Class

	trace     string // its traceparent, if it waits and has one
	hits      []hit
	denier    int // index of the hit that denied
	arrived   lease.Millis
	deadline  lease.Millis
	undecided int
	serial    uint32         // changes with each use, so that late replies do not match it
	waiting   int            // index in decider.waiting, if Outcome is Wait
	groupOf   *uplink.Flight // the call in which its wants have group
	group     uint32
	grouped   int    // wants in this group
	shadows   []*hit // of shadow rules: slots in use, and reservations
	sheds     []shedding.Held
	open      int    // reservations that no response has settled
	keys      []byte // of its hits, while it waits or has reservations
}

// hit is one rule that applies to a request.
type hit struct {
	policy  *rulebook.Policy
	key     table.Key
	cost    int64
	verdict holder.Verdict // Wait: undecided
	asked   bool           // it waits for an answer; other undecided hits are asked for later
	taken   holder.Taken
	quota   Quota
	own     int64 // of which limit quota is once the request is decided, see holder.State.OwnLimit

	decision  rulebook.Decision // for metrics, once decided
	status    int               // of a denial because something failed
	period    limit.Micros      // scope: pop: what was charged
	slots     *holding          // concurrency: where cost slots are in use
	noSecret  bool              // its key is not known, because there is no secret to hash it under
	uncounted bool              // admitted without being charged to anything
	suspect   bool              // its key was denied lately
	blocked   bool              // its key is blocked
	denied    bool              // concurrency: the region denied it, and is asked again

	settles settles // what it takes is a reservation, of which the response has to settle this
	used    int64   // how many of cost units the response has left, once it has settled them; may be more
}

// settles is what a response has to settle of a reservation. The zero value is settlesNothing.
type settles uint8

const (
	settlesNothing settles = iota
	settlesCount           // whether it counts, and then the cost
	settlesCost            // it counts; what it has cost
)

// Quota is what a response states about one rule that applied.
type Quota struct {
	Rule      *rule.Rule
	Name      string       // of the rule, and of the override if one is used, see rulebook.Policy.Name
	Policy    string       // RateLimit-Policy item
	Limit     int64        // units
	Remaining int64        // units, never negative
	Reset     lease.Millis // until then the limit has recovered, from the decision on
	// Consistency is that of the limit, see rule.ConsistencyOf.
	Consistency lease.Consistency

	unlimited bool // the key has no limit, of which a response states nothing
}

// Override is the name of the override that is used; empty if none is.
func (q *Quota) Override() string {
	_, override, _ := strings.Cut(q.Name, "/")
	return override
}

// nearer reports whether less is left of q, as a part of its limit, than of other.
func (q *Quota) nearer(other *Quota) bool {
	return uint64(q.Remaining)*uint64(other.Limit) < uint64(other.Remaining)*uint64(q.Limit)
}

// ownLimit states the limit of a key that has one of its own, and the name of its override, once a request is decided.
// Of a token bucket it is the burst.
func (h *hit) ownLimit() {
	if h.own == 0 {
		return
	}
	h.quota.unlimited = h.own >= lease.Unlimited
	s := h.policy.Limit.Spec()
	s.Count, h.quota.Name = h.policy.Own(h.own)
	h.quota.Limit, h.quota.Policy = s.Count, rulebook.Item(h.policy.Rule, s)
}

// Quotas calls f with every enforced rule that applied, in the order of the rules.
func (r *Request) Quotas(f func(*Quota)) {
	for i := range r.hits {
		if q := &r.hits[i].quota; !q.unlimited {
			f(q)
		}
	}
}

// SetQuotas is for a program that decides requests without a worker: these are the quotas of the enforced rules that applied, for the
// response. If the request is denied, the one at denier denied it.
func (r *Request) SetQuotas(quotas []Quota, denier int) {
	r.hits, r.denier = r.hits[:0], denier
	for _, q := range quotas {
		r.hits = append(r.hits, hit{quota: q})
	}
}

// Alone reports whether no more than one enforced rule applied.
func (r *Request) Alone() bool { return len(r.hits) <= 1 }

// Governing returns the quota of the rule that denied, else of the one that is nearest its
// limit; of those rules that have one of these headers. nil if there is none.
func (r *Request) Governing(of rule.Headers) (nearest *Quota) {
	if r.Outcome == Deny && len(r.hits) > 0 {
		if q := &r.hits[r.denier].quota; q.Rule.Headers&of != 0 {
			return q
		}
		return nil
	}
	for i := range r.hits {
		if q := &r.hits[i].quota; q.Rule.Headers&of != 0 && !q.unlimited && (nearest == nil || q.nearer(nearest)) {
			nearest = q
		}
	}
	return nearest
}

// DeniedKey is the key for which the request is rejected, as it is counted; empty where it is not known, or
// where nobody is to see it.
func (r *Request) DeniedKey() []byte {
	if h := &r.hits[r.denier]; !h.noSecret && !h.policy.Rule.HideKeys {
		return h.key.Text
	}
	return nil
}

// KeyOf is the key for which a rule was asked, as it is counted; empty where it is not known. q is one of Quotas. It is
// valid until the next request is matched or, of a request that waited, ends.
func (r *Request) KeyOf(q *Quota) []byte {
	for i := range r.hits {
		if h := &r.hits[i]; &h.quota == q && !h.noSecret {
			return h.key.Text
		}
	}
	return nil
}

// leaveSheds has the request not count as in flight any more.
func (r *Request) leaveSheds() {
	for i := range r.sheds {
		r.sheds[i].Leave()
	}
	r.sheds = r.sheds[:0]
}

// HasReservations reports whether the response decides if the request counts, see [Worker.Settle].
func (r *Request) HasReservations() bool { return r.open > 0 }

// BodyPaths are the paths of the numbers that the body of the response is to settle reservations by, see settle.FromBody.
func (r *Request) BodyPaths() (paths []string) {
	add := func(h *hit) {
		if a := &h.policy.Rule.Cost.Actual; h.settles != settlesNothing && a.From == settle.FromBody {
			paths = append(paths, a.Name)
		}
	}
	for i := range r.hits {
		add(&r.hits[i])
	}
	for _, h := range r.shadows {
		add(h)
	}
	return paths
}

// Holds reports whether the request has reservations, holds slots until it ends, or counts as in flight by a shed rule.
func (r *Request) Holds() bool {
	for i := range r.hits {
		if r.hits[i].slots != nil {
			return true
		}
	}
	return r.open+len(r.shadows)+len(r.sheds) > 0
}

// begin makes r ready for another request.
func (r *Request) begin(now lease.Millis) {
	*r = Request{
		Stream: r.Stream, WouldDeny: r.WouldDeny[:0], hits: r.hits[:0], shadows: r.shadows[:0], sheds: r.sheds[:0], keys: r.keys[:0],
		arrived: now, serial: r.serial + 1,
	}
}

// keepKeys copies the keys of the hits: the matcher will write over its own.
func (r *Request) keepKeys() {
	n := 0
	for i := range r.hits {
		n += len(r.hits[i].key.Text)
	}
	r.keys = slices.Grow(r.keys, n)
	for i := range r.hits {
		k, start := &r.hits[i].key, len(r.keys)
		r.keys = append(r.keys, k.Text...)
		k.Text = r.keys[start:len(r.keys):len(r.keys)]
	}
}
