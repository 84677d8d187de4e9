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
		s.forgot = max(s.now(), w.now+w.ahead, w.table.value.Told) + Unknown
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
	if r := s.record.value; w.chance(w.memory) {
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
	out := w.now-s.undecided < holdFor+FreshFor+Beat || w.now-s.answered > FreshFor+Beat
	for i, t := range s.tallies {
		if out {
			t.cut[w.limits[i].window.Begin(s.now())] += step
		}
	}
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
		x := &p.wants[p.turns%len(p.wants)]
		if x.all++; !decided {
			x.undecided++
			s.undecided = s.w.now
		}
		if granted < want {
			p.reserve(c, t, want-granted, decided)
		}
	}
}
