package reserve

import (
	"maps"

	"github.com/weirlimit/weir/internal/limit"
)

// aggregator is one of several on one table.
type aggregator struct {
	w       *world
	copy    Shares       // as it stored it last, and what it heard since
	read    limit.Micros // when it had read that
	has     bool
	busy    bool         // it uses the table
	next    limit.Micros // when it uses the table again
	weights map[string]PerMille
	heard   map[string]spoken
	waiting []func() // to be answered after the table was stored
}

// spoken is a statement that the table does not have yet.
type spoken struct {
	Statement
	at limit.Micros
}

// time is the aggregator's time; false: it does not decide.
func (a *aggregator) time() (limit.Micros, bool) {
	age := a.w.now - a.read
	return a.copy.Told + age, a.has && a.w.decides && age <= Ahead/2
}

// sync reads the table, adds what was heard, issues shares, and stores it, when it is time.
func (a *aggregator) sync() {
	w := a.w
	if a.weights == nil || w.chance(2) {
		a.weights = w.weights
	}
	if a.busy || w.now < a.next {
		return
	}
	a.next = w.now + limit.Second/4
	if w.lag > 0 {
		a.next = w.now + w.between(0, w.lag)
	}
	read, table, version := w.now, w.table.value, w.table.version
	at, decides := table.Time(w.now + w.ahead)
	if !decides {
		a.has = false
		return
	}
	heard, waiting := a.heard, a.waiting
	a.heard, a.waiting = map[string]spoken{}, nil
	for name, s := range heard {
		if next, _, err := table.Heard(name, s.Statement, s.at, a.weights[name]); err == nil {
			table = next
		}
		table, _ = table.Issued(name, a.weights[name], at)
	}
	table.Told = at
	a.busy = true
	w.after(w.between(0, limit.Second/10), func() {
		a.busy = false
		if !w.table.swap(version, table) {
			maps.Copy(heard, a.heard) // which is newer
			a.heard = heard
			a.waiting, a.next = append(waiting, a.waiting...), w.now
			return
		}
		a.copy, a.read, a.has = table, read, true
		for name, s := range a.heard {
			if next, _, err := a.copy.Heard(name, s.Statement, s.at, a.weights[name]); err == nil {
				a.copy = next
			}
		}
		for _, answer := range waiting {
			answer()
		}
	})
}

// call takes a statement of a region and answers it.
func (a *aggregator) call(name string, st Statement, reply func(Reply)) {
	at, decides := a.time()
	if !decides {
		return
	}
	next, _, err := a.copy.Heard(name, st, at, a.weights[name])
	if err != nil {
		return
	}
	a.copy = next
	a.heard[name] = spoken{st, at}
	answer := func() {
		r, known := a.copy.Regions[name]
		if at, decides := a.time(); decides && (!known || r.ID == st.ID) {
			reply(a.copy.Reply(name, st.ID, at))
		}
	}
	if st.No == 0 {
		a.waiting, a.next = append(a.waiting, answer), a.w.now
		return
	}
	answer()
}

// acquire charges up to so many units. It is false if the aggregator does not decide.
func (a *aggregator) acquire(c *counted, want int64) (granted int64, decided bool) {
	at, decides := a.time()
	if !decides || a.w.now < a.w.recall {
		return 0, false
	}
	now, window := a.w.now+a.w.ahead, c.window
	label, first, last := window.Begin(now), window.Begin(at-maxBehind), window.Begin(at+maxBehind)
	if label < first || label > last {
		return 0, false
	}
	part := a.copy.WithheldBetween(window, first, last)
	granted = c.grant(label, now, part, want)
	if next := label + window.Period; a.w.next && next-now <= limit.Second {
		c.grant(next, now, a.copy.Withheld(window, next), want)
	}
	return granted, true
}
