package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/otlp"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// batchSize is how many requests are made at once; a span has at most 64 links.
const batchSize = 32

// hops are the spans of calls for a cold key. above is the hop of a span's parent.
var hops = []struct {
	service, name, kind string
	above               int
}{
	fromPoP:  {"weir-regional", "Acquire", "SPAN_KIND_SERVER", 0},
	inRegion: {"weir-regional", "EVALSHA", "SPAN_KIND_CLIENT", fromPoP},
	toGlobal: {"weir-regional", "Acquire", "SPAN_KIND_CLIENT", fromPoP},
	atGlobal: {"weir-global", "Acquire", "SPAN_KIND_SERVER", toGlobal},
	inGlobal: {"weir-global", "EVALSHA", "SPAN_KIND_CLIENT", atGlobal},
}

const (
	fromPoP = iota // the region serves it; its parent is a span of Envoy
	inRegion
	toGlobal
	atGlobal
	inGlobal
)

// Requests of many traces ask for keys that nobody had before, and gather in Envoy and in the
// region. At every hop the span of a call belongs to one of the traces that it is for, and has
// links to all others.
func testBatch(t *testing.T, collector *otlp.Receiver, pop *stack.PoP, link *stack.Link) {
	link.Delay(100 * time.Millisecond) // while calls are in flight, what Envoy misses gathers
	defer link.Heal()
	first := 10000
	proc.Await(t, time.Minute, "requests gather in Envoy, and calls in the region", func() string {
		b := &batch{t: t, collector: collector, edge: map[string]string{}}
		first += batchSize
		if missing := b.request(pop, first); missing != "" {
			return missing
		}
		b.await()
		b.linked()
		return b.gathered()
	})
}

// batch is requests that were made at once.
type batch struct {
	t         *testing.T
	collector *otlp.Receiver
	edge      map[string]string // Envoy's span by trace
	at        [][]otlp.Span     // by hop
}

// request makes the requests. What it returns is missing if one was not decided in time, which a
// busy machine may fail to do.
func (b *batch) request(pop *stack.PoP, first int) (missing string) {
	b.t.Helper()
	errs := make([]error, batchSize)
	together(batchSize, func(i int) {
		r, err := stack.Do(pop.Addr, http.MethodGet, fmt.Sprint("/a/cold-", first+i), "", "traceparent", newClient(first+i).header("01"))
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%d, want 200", r.Status)
		}
		errs[i] = err
	})
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
	for i := range batchSize {
		c := newClient(first + i)
		x := await(b.t, b.collector, c, 1)
		if x.degraded() {
			return "a request was not decided in time"
		}
		b.edge[c.trace] = x.one("weir-pop", "", c.span).ID
	}
	return ""
}

// await waits until each trace has a span or a link at each hop, and each span its parent.
func (b *batch) await() {
	b.t.Helper()
	proc.Await(b.t, time.Minute, "spans or links of all traces at all hops", func() string {
		b.read()
		for i, spans := range b.at {
			for trace := range b.edge {
				if !slices.ContainsFunc(spans, func(s otlp.Span) bool { return isFor(s, trace) }) {
					return fmt.Sprintf("trace %s has neither a span nor a link among %+v: %v", trace, hops[i], spans)
				}
			}
			for _, s := range spans {
				if i > fromPoP && b.parent(i, s) == nil {
					return fmt.Sprintf("no parent of %v", s)
				}
			}
		}
		return ""
	})
}

// read sorts what has arrived by hop.
func (b *batch) read() {
	b.at = make([][]otlp.Span, len(hops))
	for _, s := range b.collector.Spans("") {
		for i, h := range hops {
			if b.edge[s.Trace] != "" && s.Service == h.service && strings.HasSuffix(s.Name, h.name) && s.Kind.String() == h.kind {
				b.at[i] = append(b.at[i], s)
			}
		}
	}
}

// isFor reports whether a span belongs to a trace, or has a link to it.
func isFor(s otlp.Span, trace string) bool {
	return s.Trace == trace || slices.ContainsFunc(s.Links, func(l otlp.Link) bool { return l.Trace == trace })
}

// parent is the parent of a span of a hop; nil: it has not arrived.
func (b *batch) parent(hop int, s otlp.Span) *otlp.Span {
	above := b.at[hops[hop].above]
	if i := slices.IndexFunc(above, func(p otlp.Span) bool { return p.ID == s.Parent }); i >= 0 {
		return &above[i]
	}
	return nil
}

// linked fails the test unless the calls of Envoy have links to its spans, and whatever is called
// for them has the same ones.
func (b *batch) linked() {
	b.t.Helper()
	for _, s := range b.at[fromPoP] {
		if s.Parent != b.edge[s.Trace] {
			b.t.Errorf("its parent is not Envoy's span: %v", s)
		}
		for _, l := range s.Links {
			if l.ID != b.edge[l.Trace] {
				b.t.Errorf("the link to %v is not to a span of Envoy: %v", l, s)
			}
		}
	}
	for i, spans := range b.at[fromPoP+1:] {
		for _, s := range spans {
			for _, l := range b.parent(fromPoP+1+i, s).Links {
				if !slices.Contains(s.Links, l) {
					b.t.Errorf("its parent has a link to %v, and it has none: %v", l, s)
				}
			}
		}
	}
}

// gathered is empty if a call of Envoy was for several requests, and one of the region for
// several calls of Envoy, which then has links to the spans of these.
func (b *batch) gathered() (missing string) {
	served := map[string]bool{}
	ofPoP, ofRegion := 0, 0
	for _, s := range b.at[fromPoP] {
		served[s.ID] = true
		ofPoP = max(ofPoP, 1+len(s.Links))
	}
	for _, s := range b.at[toGlobal] {
		calls := slices.DeleteFunc(slices.Clone(s.Links), func(l otlp.Link) bool { return !served[l.ID] })
		ofRegion = max(ofRegion, 1+len(calls))
	}
	text := fmt.Sprintf("%d calls of Envoy for up to %d requests, %d of the region for up to %d calls", len(b.at[fromPoP]), ofPoP, len(b.at[toGlobal]), ofRegion)
	if b.t.Log(text); ofPoP > 1 && ofRegion > 1 {
		return ""
	}
	return text
}
