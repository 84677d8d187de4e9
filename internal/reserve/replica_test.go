package reserve

import "github.com/weirlimit/weir/internal/limit"

// replica is one of a region's, with what it has in memory.
type replica struct {
	site     *site
	cut      [2]bool      // calls, replies
	born     int          // how often it restarted
	mem      Record       // the newest record that it wrote or read
	read     limit.Micros // when, by the clock of the region's store
	reply    Reply
	sent     limit.Micros // when the call was sent that it answers
	turns    int
	wants    [4]wants // of the last turns, which take a second
	turnAt   limit.Micros
	callAt   limit.Micros
	askAt    limit.Micros
	deafTill limit.Micros
}

// wants is how many there were.
type wants struct{ all, undecided int }

// change reads the record, and stores the next one a little later, if nobody else was faster.
func (p *replica) change(next func(Record) Record) {
	s, w, born := p.site, p.site.w, p.born
	if w.now < p.deafTill {
		return
	}
	found, version := s.record.value, s.record.version
	r := found.Remembered(p.mem)
	if r.ID == 0 {
		r.ID = w.rng.Uint64() | 1
	}
	r = next(r)
	read := s.now()
	w.after(w.between(0, limit.Second/10), func() {
		if s.record.swap(version, r) && p.born == born {
			p.mem, p.read = r, read
		}
	})
}

// turn renounces what may be renounced.
func (p *replica) turn() {
	s, w := p.site, p.site.w
	var sum wants
	for _, x := range p.wants {
		sum.all, sum.undecided = sum.all+x.all, sum.undecided+x.undecided
	}
	hold := sum.undecided >= 3 && 10*sum.undecided > sum.all
	p.turns++
	p.wants[p.turns%len(p.wants)] = wants{}
	p.change(func(r Record) Record {
		reply, now := p.reply, s.now()
		fresh := reply.ID == r.ID && reply.At != 0 && w.now-p.sent <= FreshFor
		if fresh {
			r = r.Replied(reply)
		}
		if hold {
			r = r.Hold(now)
		}
		if fresh {
			r = r.Renounced(reply.At, p.sent+s.clock, now, w.windows)
		}
		return r
	})
}

// call states the record to one of the aggregators.
func (p *replica) call() {
	s, w, born, sent := p.site, p.site.w, p.born, p.site.w.now
	if p.mem.ID == 0 {
		return
	}
	st, a := p.mem.Statement(), pick(w, w.aggs...)
	w.send(p.cut[0], func() {
		a.call(s.name, st, func(reply Reply) {
			w.send(p.cut[1], func() {
				if p.born != born || w.now-sent > FreshFor {
					return
				}
				s.answered = w.now
				if reply.At >= p.reply.At || reply.ID != p.reply.ID {
					p.reply, p.sent = reply, sent
				}
			})
		})
	})
}

// reserve admits up to so many units from the reserve or, if no aggregator denied them, by the part of the rate.
func (p *replica) reserve(c *counted, t *tally, want int64, denied bool) {
	s, w := p.site, p.site.w
	now := s.now()
	begin, permission := c.window.Begin(now), p.mem.Permission()
	part, ok := permission.For(c.window, begin)
	if (!ok && permission.Extends(begin) || permission.Cut == 0) && w.now >= p.askAt && !denied {
		p.askAt = w.now + limit.Second/10
		p.change(func(r Record) Record {
			r, _ = r.Permitted(s.now())
			return r
		})
	}
	switch {
	case ok && c.window.Refills:
		first := c.window.Begin(permission.After(begin)) + c.window.Period
		t.admitBucket(c, now, first, part, want)
	case ok:
		t.admit(c, now, begin, part.Of(c.spec.Count), want)
	case !denied:
		t.trickle(c, p.read, begin, permission.Cut, permission.share.Part, want) // others may have ended the outage since it read
	}
}
