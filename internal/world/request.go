package world

import (
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Request is a client's, at one PoP. It may be used again when it has ended; the functions must not make a
// request before they have returned.
type Request struct {
	// Fill makes q the request for rules with these inputs: it resets q first. The time, the secret and what
	// the PoP is are filled in after it. Required.
	Fill func(in *rule.Inputs, q *rule.Request)
	// Decided is called with the verdict, which is in Edge until the request has ended; nil: nobody asks.
	Decided func(r *Request)
	// Lasts is how long its stream lasts once it is admitted, in which it holds slots of concurrency limits; 0: it
	// ends at once. A request that is refused does.
	Lasts limit.Micros
	// Ended is called when the request and its stream have ended; nil: nobody asks. Neither is called of a request
	// whose PoP restarts while it waits.
	Ended func(r *Request)
	// Edge is what the PoP makes of it.
	Edge edge.Request
}

// Request takes a client's request, now.
func (p *PoP) Request(r *Request) {
	n := 0
	if len(p.workers) > 1 {
		n = p.w.rand.IntN(len(p.workers))
	}
	x, q := p.workers[n], &p.input
	in := x.Inputs()
	if in == nil {
		in = &noInputs
	}
	r.Fill(in, q)
	q.Now, q.PoP = p.wall(), &p.place
	x.Match(q)
	if x.Decide(p.now(), &r.Edge) == edge.Wait {
		p.waiting[&r.Edge] = r
	} else {
		p.decided = append(p.decided, r)
	}
	p.finish(n)
}

// noInputs are those of no rules.
var noInputs rule.Inputs

// end ends a request: at once, or when its stream is over.
func (p *PoP) end(n int, r *Request) {
	if r.Lasts == 0 || r.Edge.Outcome != edge.Admit {
		p.workers[n].End(p.now(), &r.Edge)
		r.end()
		return
	}
	life := p.life
	p.w.After(r.Lasts, func() {
		if life != p.life {
			r.end()
			return
		}
		p.workers[n].End(p.now(), &r.Edge)
		r.end()
		p.finish(n)
	})
}

func (r *Request) end() {
	if r.Ended != nil {
		r.Ended(r)
	}
}
