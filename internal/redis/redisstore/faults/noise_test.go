package faults

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
)

// span is from when until when, on the load's clock.
type span struct{ from, until time.Duration }

// witness measures what the machine itself does to a deadline while a test runs:
// how late timers of the same process fire, and how late nodes answer a PING on a
// connection of its own. It distinguishes a store that is late from a machine that is.
type witness struct {
	load    *load
	stopped chan struct{}
	all     sync.WaitGroup

	mu      sync.Mutex
	timers  int               // that fired
	process []span            // when one was late
	nodes   map[string][]span // when a node was late, by address
}

// late is what counts as a stall. A call waits for the processor about twice: with
// less than this each time it is still within the 20 ms beyond its budget.
const late = 10 * time.Millisecond

func startWitness(l *load, nodes []*redistest.Server) *witness {
	w := &witness{load: l, stopped: make(chan struct{}), nodes: map[string][]span{}}
	for range 16 {
		w.all.Go(w.wait)
	}
	for _, n := range nodes {
		w.all.Go(func() { w.ping(n.Addr) })
	}
	return w
}

func (w *witness) stop() {
	close(w.stopped)
	w.all.Wait()
}

func (w *witness) running() bool {
	select {
	case <-w.stopped:
		return false
	default:
		return true
	}
}

// wait does what a call does whose node never answers, with a shorter budget.
func (w *witness) wait() {
	const short = 10 * time.Millisecond
	for w.running() {
		from := w.load.at()
		ctx, cancel := context.WithTimeout(context.Background(), short)
		<-ctx.Done()
		cancel()
		until := w.load.at()
		w.mu.Lock()
		w.timers++
		if until-from-short > late {
			w.process = append(w.process, span{from, until})
		}
		w.mu.Unlock()
	}
}

// ping asks a node every few milliseconds; a node that is dead is late.
func (w *witness) ping(addr string) {
	for w.running() {
		from := w.load.at()
		c, err := net.DialTimeout("tcp", addr, time.Second)
		w.note(addr, from, w.load.at(), err)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		w.pings(addr, c)
		c.Close()
	}
}

// pings asks on one connection for as long as that answers.
func (w *witness) pings(addr string, c net.Conn) {
	replies := bufio.NewReader(c)
	for w.running() {
		time.Sleep(4 * time.Millisecond)
		from := w.load.at()
		_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
		_, err := c.Write([]byte("PING\r\n"))
		if err == nil {
			_, err = replies.ReadString('\n')
		}
		if w.note(addr, from, w.load.at(), err); err != nil {
			return
		}
	}
}

func (w *witness) note(addr string, from, until time.Duration, err error) {
	if err != nil || until-from > late {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.nodes[addr] = append(w.nodes[addr], span{from, until})
	}
}

// excuses reports whether the machine was late, or a node at one of addrs, while an
// ask was out, or shortly before: a node that was late once is left alone for a while.
func (w *witness) excuses(a *answer, addrs ...string) bool {
	// A probe that began in the stall may take 200 ms to fail, connecting and reading;
	// the next one comes 110 ms later, and waits for its turn on a crowded machine.
	const aftermath = 600 * time.Millisecond
	meets := func(s span) bool { return s.from <= a.done && a.sent <= s.until+aftermath }
	return slices.ContainsFunc(w.process, meets) || slices.ContainsFunc(addrs, func(addr string) bool {
		return slices.ContainsFunc(w.nodes[addr], meets)
	})
}

// stalled reports whether the machine was late within a span.
func (w *witness) stalled(during span) bool {
	return slices.ContainsFunc(w.process, func(s span) bool { return s.from <= during.until && during.from <= s.until })
}
