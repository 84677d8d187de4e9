package redisstore

import "sync"

// queue is what waits for the lanes of a node: errands in the order of their
// arrival, a bounded number of them. It is safe for concurrent use.
type queue struct {
	mu     sync.Mutex
	some   sync.Cond // there is something to take, or the queue is closed
	ring   []*errand // of fixed length
	first  int       // the oldest
	n      int       // 0 <= n <= len(ring)
	closed bool
}

func newQueue(bound int) *queue {
	q := &queue{ring: make([]*errand, bound)}
	q.some.L = &q.mu
	return q
}

// put adds errands and reports how many of them: those at the end find no room, or
// the queue is closed.
func (q *queue) put(errands []*errand) (taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	taken = min(len(errands), len(q.ring)-q.n)
	for _, e := range errands[:taken] {
		q.ring[(q.first+q.n)%len(q.ring)] = e
		q.n++
	}
	if taken > 0 {
		q.some.Signal()
	}
	return taken
}

// take appends what has gathered to batch, up to most of it. It waits until there
// is something; it appends nothing when the queue is closed and empty.
func (q *queue) take(batch []*errand, most int) []*errand {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 && !q.closed {
		q.some.Wait()
	}
	batch = q.pop(batch, most)
	if q.n > 0 {
		q.some.Signal() // more than a pipeline: another lane may help
	}
	return batch
}

// drain takes everything, at once.
func (q *queue) drain() []*errand {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pop(nil, q.n)
}

func (q *queue) pop(batch []*errand, most int) []*errand {
	for range min(q.n, most) {
		batch = append(batch, q.ring[q.first])
		q.ring[q.first] = nil
		q.first = (q.first + 1) % len(q.ring)
		q.n--
	}
	return batch
}

// close ends the queue: nothing is taken on any more, and who waits is woken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
