package reserve

import "github.com/weirlimit/weir/internal/limit"

// site is a region: its store and its replicas.
type site struct {
	w        *world
	name     string
	clock    limit.Micros // of its store, minus the true time
	record   cell[Record]
	past     []past // for stores that go back
	replicas []*replica
	tallies  []*tally // by limit
	busy     bool
	grey     bool
	mood     float64      // how much it wants of token buckets
	forgot   limit.Micros // in windows that begin until then it may admit its reserve twice

	undecided limit.Micros // when a want was not decided last
	answered  limit.Micros // when a reply arrived last
}

type past struct {
	at limit.Micros
	Record
}

// replica is one of a region's, with what it has in memory.
type replica struct {
	site      *site
	cut       [2]bool      // calls, replies
	born      int          // how often it restarted
	mem       Record       // the newest record that it wrote or read
	read      limit.Micros // when, by the clock of the region's store
	reply     Reply
	sent      limit.Micros // when the call was sent that it answers
	wants     int          // since the last turn
	undecided int
	turnAt    limit.Micros
	callAt    limit.Micros
	askAt     limit.Micros
	deafTill  limit.Micros
	permitted limit.Micros // when permission was asked for last
}

func newSite(w *world, name string) *site {
	s := &site{w: w, name: name, busy: true, answered: start, undecided: start}
	if w.clocks {
		s.clock = pick(w, 0, 0, w.between(-2*limit.Second, 2*limit.Second), w.between(-900*limit.Second, 900*limit.Second))
	}
	for range max(w.replicas, 1) {
		s.replicas = append(s.replicas, &replica{site: s})
	}
	for _, c := range w.limits {
		t := newTally(s)
		s.tallies, c.tallies = append(s.tallies, t), append(c.tallies, t)
	}
	return s
}

func (s *site) now() limit.Micros { return s.w.now + s.clock }

func (s *site) misfortune(i int) {
	w := s.w
	if !w.quiet && w.chance(15) {
		cut := pick(w, [2]bool{}, [2]bool{}, [2]bool{}, [2]bool{true, true}, [2]bool{true, false}, [2]bool{false, true})
		if w.partial {
			pick(w, s.replicas...).cut = cut
		} else {
			s.cut(cut)
		}
	}
	if w.flaps > 0 {
		down := (w.now-start)%w.flaps < w.flaps*limit.Micros(i+1)/4
		s.cut([2]bool{down, down})
	}
	if w.steps && w.chance(200) {
		s.clock += w.between(-30*limit.Second, 30*limit.Second)
	}
	if w.idle && w.chance(5) {
		s.busy = w.rng.IntN(2) == 0
	}
	if w.chance(8) {
		s.mood = pick(w, 0, 0, 1.5, 20)
	}
	if w.grey > 0 && w.chance(10) {
		s.grey = w.rng.Float64() < w.grey
	}
	lost := w.chance(w.lose)
	if lost {
		s.lose()
	} else if w.chance(w.forget) {
		s.lose()
		s.forgot = s.now() + Unknown
		p := s.replicas[0]
		*p = replica{site: s, cut: p.cut, born: p.born + 1}
	}
	for _, p := range s.replicas {
		if lost || w.chance(w.crash) {
			*p = replica{site: s, cut: p.cut, born: p.born + 1}
		}
		if w.chance(w.deaf) {
			p.deafTill = w.now + w.between(0, 20*limit.Second)
		}
	}
	if w.goBack > 0 {
		s.goBack()
	}
	r := s.record.value
	if w.chance(w.memory) && r.Touched == 0 && r.Until != 0 && r.Until == w.table.value.Regions[s.name].Until {
		s.record.put(Record{ID: r.ID})
		p := s.replicas[0]
		*p = replica{site: s, cut: p.cut, born: p.born + 1}
	}
}

func (s *site) cut(how [2]bool) {
	for _, p := range s.replicas {
		p.cut = how
	}
}

// lose empties the region's store. It may admit its reserve once more.
func (s *site) lose() {
	s.record.put(Record{})
	for _, t := range s.tallies {
		t.clear()
	}
	s.past = nil
}

// goBack lets the record go back; the fault that took the store took the links as well.
func (s *site) goBack() {
	w := s.w
	s.past = append(s.past, past{w.now, s.record.value})
	s.past = s.past[max(0, len(s.past)-100):]
	if !w.chance(20) {
		return
	}
	for _, p := range s.past {
		if p.at >= w.now-w.between(0, w.goBack) {
			s.record.put(p.Record)
			s.cut([2]bool{true, true})
			return
		}
	}
}

// beat lets replicas use the record and call an aggregator when it is time.
func (s *site) beat() {
	w := s.w
	for _, p := range s.replicas {
		if w.now >= p.turnAt {
			p.turnAt = w.now + w.between(Beat*4/10, Beat/2)
			p.turn()
		}
		if w.now >= p.callAt {
			p.callAt = w.now + w.between(Beat*9/10, Beat)
			p.call()
		}
	}
	out := w.now-s.undecided < HoldFor+FreshFor+Beat || w.now-s.answered > FreshFor+Beat
	for i, t := range s.tallies {
		if out {
			t.cut[w.limits[i].window.Begin(s.now())] += step
		}
	}
}

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
	hold := p.undecided >= 3 && 10*p.undecided > p.wants
	p.wants, p.undecided = 0, 0
	p.change(func(r Record) Record {
		reply, now := p.reply, s.now()
		switch w.fault {
		case "a reply to any record counts":
			reply.ID = r.ID
		case "a region that knows nothing takes over no span":
			reply.Used = nil
		case "a region's clock is in until":
			reply.At = now
		}
		fresh := reply.ID == r.ID && reply.At != 0 && (w.now-p.sent <= FreshFor || w.fault == "a late reply counts")
		if empty := r.Until == 0; fresh {
			r = r.Replied(reply)
			if empty && w.fault == "a region that knows nothing begins with its own time" {
				r.Until = reply.At + Ahead
			}
		}
		if hold && w.fault != "nobody is held" {
			r = r.Hold(now)
		}
		cut, used, touched := r.Cut, len(r.Used), r.Touched
		if fresh {
			r = r.Renounced(reply.At, now, p.windows())
		}
		switch w.fault {
		case "an outage never ends":
			r.Cut = cut
		case "what was used is forgotten":
			r.Used = nil
		case "of too many spans the oldest goes":
			if touched != 0 && r.Touched == 0 && used == MaxSpans {
				r.Used = append([]Span{{1, 1}}, r.Used[1:]...)
			}
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
				if p.born != born || w.now-sent > FreshFor && w.fault != "a late reply counts" {
					return
				}
				s.answered = w.now
				if reply.At >= p.reply.At || reply.ID != p.reply.ID || w.fault == "a late reply counts" {
					p.reply, p.sent = reply, sent
				}
			})
		})
	})
}

// demand lets the region want something of each limit.
func (s *site) demand() {
	if !s.busy {
		return
	}
	p, a := pick(s.w, s.replicas...), pick(s.w, s.w.aggs...)
	for i, c := range s.w.limits {
		want, t := c.wants(s), s.tallies[i]
		if want == 0 {
			continue
		}
		var granted int64
		var decided bool
		if p.cut == [2]bool{} && !(s.grey && s.w.rng.Float64() < 0.7) {
			if granted, decided = a.acquire(c, want); decided && t.debt > 0 {
				c.debts[c.window.Begin(s.w.now+s.w.ahead)] += t.debt
				t.debt = 0
			}
		}
		p.wants++
		if !decided {
			p.undecided++
			s.undecided = s.w.now
		}
		if granted < want {
			p.reserve(c, t, want-granted, decided)
		}
	}
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
		from := begin
		if w.fault == "a bucket's window begins full" {
			from -= c.window.Period
		}
		t.admit(c, now, begin, Trickle(c.spec, part, from, from, now), want)
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
