package reserve

import "github.com/weirlimit/weir/internal/limit"

// replica is one of a region's, with what it has in memory.
type replica struct {
	site      *site
	cut       [2]bool      // calls, replies
	born      int          // how often it restarted
	mem       Record       // the newest record that it wrote or read
	read      limit.Micros // when, by the clock of the region's store
	reply     Reply
	sent      limit.Micros // when the call was sent that it answers
	turns     int
	wants     [4]wants // of the last turns, which take a second
	turnAt    limit.Micros
	callAt    limit.Micros
	askAt     limit.Micros
	deafTill  limit.Micros
	permitted limit.Micros // when permission was asked for last
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
	if w.fault == "replicas remember nothing" {
		r = found
	}
	if r.ID == 0 {
		r.ID = w.rng.Uint64() | 1
	}
	r = next(r)
	read := s.now()
	if w.fault == "a record is stated before it is stored" {
		p.mem = r
	}
	w.after(w.between(0, limit.Second/10), func() {
		if w.fault == "the record is stored without compare-and-set" {
			version = s.record.version
		}
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
		switch w.fault {
		case "a late reply to another record counts":
			reply.ID = r.ID
		case "a region that knows nothing takes over no span":
			reply.Used = nil
		case "a region's clock is in until":
			reply.At = now
		}
		fresh := reply.ID == r.ID && reply.At != 0 && (w.now-p.sent <= FreshFor || w.fault == "a late reply to another record counts")
		if empty := r.Until == 0; fresh {
			r = r.Replied(reply)
			if empty && w.fault == "a region that knows nothing begins with its own time" {
				r.Until = reply.At + Ahead
			}
		}
		if hold && w.fault != "nobody is held" {
			r = r.Hold(now)
		}
		cut := r.Cut
		if fresh {
			r = r.Renounced(reply.At, p.sent+s.clock, now, p.windows())
		}
		switch w.fault {
		case "an outage never ends":
			r.Cut = cut
		case "what was used is forgotten":
			r.Used = nil
		case "the least share is forgotten with each renouncement":
			r.Low = r.Share.Part
		case "the oldest number is not kept":
			r.Oldest = 0
		}
		return r
	})
}

// windows are those for which what was used is kept.
func (p *replica) windows() []Window {
	w := p.site.w
	switch w.fault {
	case "the shortest window decides what is forgotten":
		return w.windows[:1]
	case "what was used is kept for one window":
		short := []Window{}
		for _, x := range w.windows {
			short = append(short, Window{Period: x.Period})
		}
		return short
	}
	return w.windows
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
				old := p.born != born || w.now-sent > FreshFor
				if old && w.fault != "a late reply to another record counts" {
					return
				}
				s.answered = w.now
				if old || reply.At >= p.reply.At || reply.ID != p.reply.ID {
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
	switch w.fault {
	case "a larger share counts in earlier windows":
		permission.share.Since = 0
	case "the least share is not kept":
		permission.low = permission.share.Part
	case "permission is for a while":
		if p.permitted != 0 && w.now-p.permitted < limit.Second {
			permission.last = Span{0, limit.Never}
		}
	}
	window := c.window
	if w.fault == "a window is used without the one before it" {
		window.LooksBack = false
	}
	part, ok := permission.For(window, begin)
	if (!ok && permission.Extends(begin) || permission.Cut == 0) && w.now >= p.askAt && !denied {
		p.askAt = w.now + limit.Second/10
		p.change(func(r Record) Record {
			r, _ = r.Permitted(s.now())
			if w.fault == "permission is not written" {
				touched := r.Touched
				w.after(0, func() { p.mem.Touched = touched })
				r.Touched = 0
			}
			p.permitted = w.now
			return r
		})
	}
	switch {
	case ok && c.window.Refills:
		first := window.Begin(permission.After(begin)) + window.Period
		t.admitBucket(c, now, first, part, want)
	case ok:
		t.admit(c, now, begin, part.Of(c.spec.Count), want)
	case !denied:
		cut := permission.Cut
		if w.fault == "an outage begins with the window" && cut != 0 {
			cut = begin
		}
		seen := p.read // others may have ended the outage since
		if w.fault == "an outage lasts as long as a replica believes" {
			seen = now
		}
		t.trickle(c, seen, begin, cut, permission.share.Part, want)
	}
}
