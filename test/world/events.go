package world

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/limit"
)

// events is a heap, the next event first: those of one time in the order in which they
// were added. A run adds tens of millions, so it holds them by value.
type events []event

type event struct {
	at     limit.Micros
	serial uint64
	do     func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.serial < o.serial }

func (q *events) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

// pop takes out the next event; there is one.
func (q *events) pop() event {
	h := *q
	next, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	i := 0
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	*q = h
	return next
}

// mail is how goroutines of the product hand over what they want done.
type mail struct {
	on      bool // there are such goroutines
	begun   time.Time
	wake    chan struct{}
	stirred bool // goroutines may run since the last look
	mu      sync.Mutex
	posted  []post
	doing   []post // what was posted before, to be used again
}

// post is something to be done now. What was posted at one instant is done in the
// order of these names.
type post struct {
	name, key string
	n, m      uint64
	do        func()
}

func (p *post) compare(o *post) int {
	return cmp.Or(strings.Compare(p.name, o.name), strings.Compare(p.key, o.key), cmp.Compare(p.n, o.n), cmp.Compare(p.m, o.m))
}

// post hands over something; goroutines of the product call it.
func (m *mail) post(p post) {
	m.mu.Lock()
	m.posted = append(m.posted, p)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// bubbleTime is the virtual time at which timers of goroutines run.
func (w *World) bubbleTime() limit.Micros {
	return epochStart + limit.Micros(time.Since(w.mail.begun).Microseconds())
}

// pass lets time pass until then. False: something was posted before.
func (w *World) pass(until limit.Micros) bool {
	if !w.mail.on {
		w.setNow(until)
		return true
	}
	if d := until - w.bubbleTime(); d > 0 {
		w.mail.stirred = true
		select {
		case <-time.After(time.Duration(d) * time.Microsecond):
		case <-w.mail.wake:
		}
		w.setNow(w.bubbleTime())
		w.collect()
		if w.bubbleTime() < until || len(w.events) > 0 && w.events[0].at < until {
			return false
		}
	}
	w.setNow(until)
	return true
}

// collect waits until all goroutines wait, and does what they have posted.
func (w *World) collect() {
	m := &w.mail
	for m.on && m.stirred {
		m.stirred = false
		synctest.Wait()
		m.mu.Lock()
		m.posted, m.doing = m.doing[:0], m.posted
		m.mu.Unlock()
		select {
		case <-m.wake:
		default:
		}
		slices.SortStableFunc(m.doing, func(a, b post) int { return a.compare(&b) })
		for i := range m.doing {
			m.doing[i].do()
			m.doing[i] = post{}
		}
	}
}

// crew are goroutines that answer calls. They are used again: that of a new one has to grow its
// stack with each call. The zero value has none; only the run's own goroutine may use it.
type crew struct{ jobs chan func() }

// do has a goroutine do it, one that waits for something to do if there is one.
func (c *crew) do(job func()) {
	if c.jobs == nil {
		c.jobs = make(chan func())
	}
	select {
	case c.jobs <- job:
	default:
		go func(jobs <-chan func()) {
			job()
			for next := range jobs {
				next()
			}
		}(c.jobs)
	}
}

// stop ends those that wait for something to do, and the others when they are done.
func (c *crew) stop() {
	if c.jobs != nil {
		close(c.jobs)
	}
}
