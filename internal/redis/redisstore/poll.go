package redisstore

import (
	"context"
	"errors"
	"math"
	"time"
)

// poll is one look-up: it asks nodes in parallel and keeps the best view. It belongs to
// one goroutine.
type poll struct {
	ctx    context.Context
	cancel context.CancelFunc
	ask    func(ctx context.Context, addr string) view

	views   chan view
	asked   map[string]bool
	waiting int // views that are missing
	best    view
}

func newPoll(ctx context.Context, ask func(context.Context, string) view) *poll {
	p := &poll{ask: ask, views: make(chan view), asked: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.best = view{err: errors.New("redis: no node of the cluster is known"), place: math.MaxInt}
	return p
}

// leave ends the poll without the nodes that have not answered.
func (p *poll) leave() { p.cancel() }

// put asks those of addrs that have not been asked.
func (p *poll) put(addrs []string) {
	for _, addr := range addrs {
		if p.asked[addr] {
			continue
		}
		p.asked[addr] = true
		p.waiting++
		go func() {
			v := p.ask(p.ctx, addr)
			select {
			case p.views <- v:
			case <-p.ctx.Done():
			}
		}()
	}
}

// wait waits until all nodes have answered, at most for the given time, and at most for
// laggard after the first view of a healthy cluster.
func (p *poll) wait(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for p.waiting > 0 {
		select {
		case v := <-p.views:
			p.waiting--
			if v.well() && !p.best.well() {
				timer.Reset(laggard)
			}
			if v.better(&p.best) {
				p.best = v
			}
		case <-timer.C:
			return
		case <-p.ctx.Done():
			return
		}
	}
}
