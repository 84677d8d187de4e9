package sim

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/limit"
)

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
		w.now = max(w.now, until)
		return true
	}
	there := until
	if w.Grain > 0 {
		there -= until % w.Grain
	}
	if d := there - w.bubbleTime(); d > 0 {
		w.mail.stirred = true
		select {
		case <-time.After(time.Duration(d) * time.Microsecond):
		case <-w.mail.wake:
		}
		w.now = w.Now()
		w.collect()
		if w.bubbleTime() < there || len(w.events) > 0 && w.events[0].at < until {
			return false
		}
	}
	w.now = max(w.now, until)
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
