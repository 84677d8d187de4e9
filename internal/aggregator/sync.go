package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

const (
	// exchangeEvery is the time between two exchanges of aggregators on one store, and of one that is alone.
	exchangeEvery, aloneEvery = 250 * time.Millisecond, time.Second
	// exchangeRetry is that after one that failed.
	exchangeRetry = 100 * time.Millisecond
	// exchangePause is how long an exchange waits that is due at once: several calls may bring something.
	exchangePause = 10 * time.Millisecond
	// exchangeTime bounds one exchange.
	exchangeTime = 500 * time.Millisecond
	// maxTurns is how often an exchange begins anew because another aggregator was faster.
	maxTurns = 4
)

// run exchanges what is known with the other aggregators, until ctx ends.
func (r *reserves) run(ctx context.Context) {
	every := exchangeEvery
	if r.config.Alone {
		every = aloneEvery
	}
	next, soon := time.NewTimer(0), true
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			if !soon {
				soon = true
				next.Reset(exchangePause)
			}
			continue
		case <-next.C:
		}
		pause := every
		if err := r.exchange(ctx); err != nil {
			pause = exchangeRetry
		}
		r.report()
		soon = false
		next.Reset(pause)
	}
}

// exchange reads what other aggregators have stored, and stores what regions have stated, the shares that they get,
// and the time. After an error it is unknown whether that was stored.
func (r *reserves) exchange(ctx context.Context) error {
	r.exchanges.Lock()
	defer r.exchanges.Unlock()
	return r.exchangeLocked(ctx)
}

// exchangeLocked is exchange with r.exchanges locked.
func (r *reserves) exchangeLocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	for range maxTurns {
		old, table, stated := r.proposal()
		var next []byte
		if table != nil {
			next, _ = json.Marshal(table) // numbers and strings: no error
		}
		began := r.config.Steady()
		found, now, err := r.config.Cell.Swap(ctx, old, next)
		if err != nil {
			r.mu.Lock()
			r.again(stated)
			r.mu.Unlock()
			return err
		}
		if done := r.found(began, now, old, found, next, table, stated); done {
			return nil
		}
	}
	return errBusy
}

var errBusy = fmt.Errorf("other aggregators stored something else %d times meanwhile", maxTurns)

// proposal is what is to be stored in place of old: nil for nothing. What was stated until now is in it.
func (r *reserves) proposal() (old []byte, table *reserve.Shares, stated map[string]reserve.Statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stated, r.stated = r.stated, map[string]reserve.Statement{}
	if !r.known {
		return nil, nil, stated // to begin with it is read
	}
	next := r.stored
	at, decides := next.Time(r.config.Steady() + r.ahead)
	for name, st := range stated {
		heard, unknown, err := next.Heard(name, st, at, r.shares[name])
		if next = heard; err != nil {
			r.reject(r.speaks[name], name, err)
		} else if unknown {
			r.unknown(name, &st, &next)
		}
	}
	for name := range r.dead {
		next = next.Dead(name)
	}
	if decides && r.shares != nil {
		for name, known := range next.Regions {
			if next, _ = next.Issued(name, r.shares[name], at); r.shares[name] == 0 && nothing(known.Issued) {
				next = next.Dead(name) // it was taken out of the rules, and knows that
			}
		}
	}
	if len(next.Regions) == 0 && r.raw == nil {
		return r.raw, nil, stated // nobody has a share
	}
	next.Told = max(next.Told, at)
	return r.raw, &next, stated
}

// nothing reports whether no share is more than nothing.
func nothing(issued []reserve.Share) bool {
	return !slices.ContainsFunc(issued, func(s reserve.Share) bool { return s.Part > 0 })
}

// again takes back what was in a proposal that was not stored, or may not have been. r.mu is locked.
func (r *reserves) again(stated map[string]reserve.Statement) {
	for name, st := range stated {
		if _, newer := r.stated[name]; !newer {
			r.stated[name] = st
		}
	}
}

// found takes what an exchange found. done is false if another one has to follow at once.
func (r *reserves) found(began, now limit.Micros, old, found, next []byte, table *reserve.Shares, stated map[string]reserve.Statement) (done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = now - r.config.Steady()
	switch {
	case r.known && bytes.Equal(found, old):
		if next != nil {
			r.raw, r.stored = next, *table
			clear(r.dead)
		}
		r.synced, done = began, true
	default:
		r.again(stated)
		r.read(found)
	}
	r.table = r.stored
	at, _ := r.table.Time(r.config.Steady() + r.ahead)
	for name, st := range r.stated {
		if heard, _, err := r.table.Heard(name, st, at, r.shares[name]); err == nil {
			r.table = heard
		}
	}
	return done
}

// read takes what another aggregator has stored. A table that is older than one that was stored before, or none, is
// one that the store has lost: what this aggregator has takes its place.
func (r *reserves) read(found []byte) {
	var table reserve.Shares
	var err error
	if found != nil {
		if err = json.Unmarshal(found, &table); err == nil {
			err = table.Check()
		}
	}
	r.raw, r.known = found, true
	switch {
	case err != nil:
		r.config.Log.Error("cannot read the table of reserves; rebuilding it from the regions' calls", "error", err)
		fallthrough
	case found == nil:
		if r.stored.Told == 0 { // this aggregator knows nothing either
			r.recall = r.config.Steady() + recallFor
		}
	case table.Told >= r.stored.Told:
		r.stored = table
	}
}

// unknown logs a share that was never issued.
func (r *reserves) unknown(name string, st *reserve.Statement, table *reserve.Shares) {
	if one := r.speaks[name]; one == nil || one.unknown.Now() {
		issued := table.Regions[name].Issued
		r.config.Log.Warn("region stated a share that was never issued; all units without another share are withheld",
			"region", name, "number", st.No, "states", int64(st.Part), "withheld", int64(issued[len(issued)-1].Part))
	}
}

// report tells whether this aggregator decides, and what is withheld for whom.
func (r *reserves) report() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Steady()
	at, reason := r.time(now)
	if reason != r.reason {
		switch r.reason = reason; reason {
		case "":
			r.config.Log.Info("aggregator decides")
		case tableLost:
			r.config.Log.Info("aggregator does not decide yet", "reason", reason)
		default:
			r.config.Log.Error("aggregator does not decide", "reason", reason, "runbook", "docs/runbooks/WeirAggregatorUndecided.md")
		}
		r.config.Undecided(reason)
	}
	for name := range r.shares {
		r.show(name, at)
	}
	for name := range r.table.Regions {
		if _, has := r.shares[name]; !has {
			r.show(name, at)
		}
	}
	for name := range r.speaks {
		_, known := r.table.Regions[name]
		if _, has := r.shares[name]; !known && !has {
			r.withheldOf.DeleteLabelValues(name)
			delete(r.speaks, name)
		}
	}
}

// show reports what is withheld for a region in windows that begin now, and logs when that begins and ends.
func (r *reserves) show(name string, at limit.Micros) {
	only := reserve.Shares{Regions: map[string]reserve.Region{}}
	if known, ok := r.table.Regions[name]; ok {
		only.Regions[name] = known
	}
	part := only.Withheld(reserve.Window{Period: 1}, at)
	r.withheldOf.WithLabelValues(name).Set(float64(part))
	one := r.speaks[name]
	if one == nil {
		one = new(speaker)
		r.speaks[name] = one
	}
	switch withheld := part > 0; {
	case withheld && !one.withheld:
		r.config.Log.Warn("region cut off; its share is withheld", "region", name, "per_mille", int64(part),
			"runbook", "docs/runbooks/WeirRegionWithheld.md")
	case one.withheld && !withheld:
		r.config.Log.Info("region connected; windows in which it may have used its share stay withheld", "region", name)
	}
	one.withheld = part > 0
}

// rejects is 1 while nothing is decided.
func (r *reserves) rejects() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, reason := r.time(r.config.Steady())
	return float64(limit.Bit(reason != ""))
}

// Forget takes a region for dead, as a person declares it: nothing is withheld for it any more. A region that called
// within the last ten seconds is not dead.
func (s *Store) Forget(ctx context.Context, region string) error {
	r := &s.reserves
	if r.config.Cell == nil {
		return fmt.Errorf("this program is not an aggregator")
	}
	r.exchanges.Lock() // else the end of another exchange would count for this region
	defer r.exchanges.Unlock()
	if err := r.die(region); err != nil {
		return err
	}
	if err := r.exchangeLocked(ctx); err != nil {
		return fmt.Errorf("it is forgotten as soon as the store answers: %w", err)
	}
	r.config.Log.Warn("region declared dead; nothing is withheld for it", "region", region)
	return nil
}
