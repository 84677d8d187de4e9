package front

import (
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/lease"
)

// reply collects the grants that a caller waits for.
type reply struct {
	done chan struct{} // closed when none is missing

	mu      sync.Mutex
	grants  []lease.Grant // the caller's; nil when it has gone
	missing int           // and one more until the caller has put all its asks
}

func newReply(grants []lease.Grant) *reply {
	return &reply{grants: grants, done: make(chan struct{}), missing: 1}
}

func (r *reply) expect(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[i] = lease.Grant{Status: lease.Unavailable}
	r.missing++
}

// expectMore notes that something else comes later.
func (r *reply) expectMore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing++
}

// answerMore says that it has come.
func (r *reply) answerMore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants != nil {
		r.arrived()
	}
}

// answer hands over a grant. It is false if the caller has gone.
func (r *reply) answer(i int, g lease.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants == nil {
		return false
	}
	r.grants[i] = g
	r.arrived()
	return true
}

func (r *reply) arrived() {
	if r.missing--; r.missing == 0 {
		close(r.done)
	}
}

func (r *reply) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants == nil
}

func (r *reply) wait(ctx context.Context) {
	r.mu.Lock()
	r.arrived()
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.grants = nil
	r.mu.Unlock()
}

// waiter is an ask that waits for its grant.
type waiter struct {
	want  lease.Want
	reply *reply
	at    int          // index of the grant
	ends  lease.Millis // the caller's deadline; 0: it does not wait in line
}
