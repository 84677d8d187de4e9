package table

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// Subleases is a worker's cache of units in front of a table: of a key that the worker admits often it
// takes some units out of the account that the workers share, and admits requests from here without
// reading it. What is left goes back within one lease interval. It is direct-mapped: a key that falls on
// a place where another one has units goes on without. The zero value is empty.
type Subleases struct {
	entries []Sublease
	out     []*Sublease // that hold units, or did at the last Due
}

// Sublease is units that a worker has of one key, and how often it admitted the key lately.
type Sublease struct {
	holder.Part              // units that are left; they are of one lot of the account
	Until       lease.Millis // they go back then
	Left        int64        // units that the account and the region had beside these
	Reset       lease.Millis // of the account
	OwnLimit    int64        // see holder.State
	Key         Key          // its text is the sublease's own

	since  lease.Millis // of takes
	takes  int
	listed bool
}

const (
	// subleasesLog2 sizes the cache: 1,024 places of 120 bytes, made with the first request.
	subleasesLog2 = 10
	// oftenTakes in one lease interval make a key one that is admitted often.
	oftenTakes = 4
)

// At is the place of a key; nil if another key has units there.
func (s *Subleases) At(k Key) *Sublease {
	if len(s.entries) == 0 {
		s.entries = make([]Sublease, 1<<subleasesLog2)
	}
	e := s.place(k)
	switch {
	case e.Key.Hash == k.Hash:
		return e
	case e.Units > 0:
		return nil
	}
	e.Key.Hash, e.Key.Rule, e.since, e.takes = k.Hash, k.Rule, 0, 0
	return e
}

// place is where a key has units, or would have them.
func (s *Subleases) place(k Key) *Sublease { return &s.entries[k.Hash&(1<<subleasesLog2-1)] }

// Of returns the units that the worker has of a key.
func (s *Subleases) Of(k Key) (part holder.Part) {
	if len(s.entries) > 0 && s.place(k).Key.Hash == k.Hash {
		part = s.place(k).Part
	}
	return part
}

// Spend takes cost units if they are here.
func (e *Sublease) Spend(now lease.Millis, cost int64) bool {
	if e.Units < cost || now >= e.Until {
		return false
	}
	e.Units -= cost
	e.takes++
	return true
}

// Often notes that a request of the key is decided without these units, and reports whether that was often
// of late: requests count in their interval, and half as much in the next one.
func (e *Sublease) Often(now, interval lease.Millis) bool {
	switch passed := now - e.since; {
	case passed >= 2*interval:
		e.since, e.takes = now, 0
	case passed >= interval:
		e.since, e.takes = now, e.takes/2
	}
	e.takes++
	return e.takes >= oftenTakes
}

// Begin puts units of an account into e, until then.
func (s *Subleases) Begin(e *Sublease, of *Entry, part holder.Part, now, until lease.Millis) {
	e.Part, e.Until = part, until
	e.Left, e.Reset, e.OwnLimit = of.Left+of.Available(now), of.Reset, of.OwnLimit
	e.Key.Text = append(e.Key.Text[:0], of.Key...)
	if !e.listed {
		e.listed, s.out = true, append(s.out, e)
	}
}

// Due calls back for each sublease that has units and is over; back empties it.
func (s *Subleases) Due(now lease.Millis, back func(e *Sublease)) {
	still := s.out[:0]
	for _, e := range s.out {
		if e.Units > 0 && now >= e.Until {
			back(e)
		}
		if e.listed = e.Units > 0; e.listed {
			still = append(still, e)
		}
	}
	s.out = still
}
