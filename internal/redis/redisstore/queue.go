package redisstore

import (
	"slices"
	"sync"
)

// queue holds the asks that wait for the lanes of a node, in the order of their
// arrival. Their number is bounded. It is safe for concurrent use.
type queue struct {
	bound  int
	mu     sync.Mutex
	some   sync.Cond // there is something to take, or the queue is closed
	asks   []*pendingAsk
	closed bool
}

func newQueue(bound int) *queue {
	q := &queue{bound: bound}
	q.some.L = &q.mu
	return q
}

// put adds asks and returns how many of them were taken, from the first on: fewer than
// all if the queue is full, none if it is closed.
func (q *queue) put(asks []*pendingAsk) (taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	taken = min(len(asks), q.bound-len(q.asks))
	q.asks = append(q.asks, asks[:taken]...)
	if taken > 0 {
		q.some.Signal()
	}
	return taken
}

// take appends what has gathered to batch, at most so many asks. It waits until there
// is one; it appends nothing when the queue is closed and empty.
func (q *queue) take(batch []*pendingAsk, most int) []*pendingAsk {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.asks) == 0 && !q.closed {
		q.some.Wait()
	}
	n := min(len(q.asks), most)
	batch = append(batch, q.asks[:n]...)
	if q.asks = slices.Delete(q.asks, 0, n); len(q.asks) > 0 {
		q.some.Signal() // more than one pipeline: another lane may take the rest
	}
	return batch
}

// close ends the queue: put takes nothing any more, and lanes that wait are woken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.asks)
}
