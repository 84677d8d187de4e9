package shedding

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// lookEvery is how long a worker that found no room for a class does not look again.
	lookEvery lease.Millis = 10
	// moveEvery is how often the level is moved, by whichever worker.
	moveEvery lease.Millis = 100
	// spareOf is the part of what is free, over the workers with requests, that a worker claims beyond what it has in flight. A
	// larger number has it claim more often, a smaller one rejects lower classes earlier: what others claim and do
	// not use counts against their room.
	spareOf = 8
	// cutLasts is how long a cut is used that no tick has made anew.
	cutLasts lease.Millis = 1000
	// minRate is how many requests in 1,000 seconds a PoP must have before any is rejected by the ratio.
	minRate = 5000
)

// Rule is one worker's part of a shed rule. What the worker has in flight belongs to the rule by its name: it goes on to count
// when the rules change.
type Rule struct {
	Name        string
	Shadow      bool
	Utilization int64 // per mille, as the record had it last
	Ratio       int64 // of the requests to reject, in millionths

	of         *rule.Rule // nil: it is gone
	counts     *rulebook.RuleCounts
	rules      *Rules
	key        []byte              // of the record
	capacities [shed.Classes]int64 // requests in flight at the PoP below which a class is admitted

	inFlight int64        // requests, live
	claim    int64        // inFlight stays below it, as the others know
	others   int64        // the sum of their claims, as it was last
	until    lease.Millis // the others count on the claim until then
	ticked   lease.Millis // when the cut was made
	retry    [shed.Classes]lease.Millis

	seen      shed.Seen
	responses shed.Responses
	cut       shed.Cut
	offered   rate
}

// rate is how many requests come.
type rate struct {
	since lease.Millis
	count int64 // since then
	last  int64 // in 1,000 seconds, of the last whole second or more
}

func (r *rate) tick(now lease.Millis) {
	if elapsed := now - r.since; elapsed >= 1000 || elapsed < 0 {
		*r = rate{since: now, last: r.count * 1_000_000 / int64(max(elapsed, 1000))}
	}
}

// use has the rule be as of says.
func (r *Rule) use(of *rule.Rule) {
	r.of, r.Shadow = of, of.Mode == rule.Shadow
	s := of.Shed
	for c := range r.capacities {
		r.capacities[c] = shed.ClassCapacity(s.Capacity, s.Shares[c])
	}
	r.until = 0
}

// Held is a request that a shed rule let pass.
type Held struct {
	rule     *Rule
	cohort   int
	decision rulebook.Decision
	inFlight int64 // 1: it counts as that; 0: a shadow rule would have rejected it
}

// Leave has the request not count any more.
func (h *Held) Leave() { h.rule.inFlight -= h.inFlight }

// Count counts what the rule decided on a request that is admitted.
func (h *Held) Count() { h.rule.counts.Decided[h.decision]++ }

// Enter decides a request, and counts it as in flight unless it is rejected. A shadow rule rejects none: rejected says what it
// would do, and what it would reject is not in flight to it, or it would go on to reject more than it will when enforced.
func (r *Rule) Enter(now lease.Millis, hit *rule.ShedHit) (h Held, rejected bool) {
	h = Held{rule: r, cohort: r.cohort(now, hit.Key)}
	cohort := h.cohort
	if len(r.of.Shed.Classes) == 0 { // no client is rejected more often than another
		cohort = r.anyCohort()
	}
	r.offered.count++
	r.seen.Add(int64(now), hit.Class, cohort)
	cut := now < r.ticked+cutLasts && r.cut.Rejects(hit.Class, cohort, int64(r.rules.pop.UpTo(999_999)))
	rejected = cut || !r.hasCapacity(now, hit.Class)
	if h.decision = rulebook.Shed(hit.Class, rejected, r.Shadow); !rejected {
		h.inFlight = 1
		r.inFlight++
	} else if !r.Shadow {
		h.Count()
	}
	return h, rejected
}

// cohort is whose requests are rejected together with those of this key. The hash has a seed that clients do not know, so
// that none chooses its cohort. Of a rule without a key each request has one by chance; requests that lack the key are
// one client's.
func (r *Rule) cohort(now lease.Millis, key []byte) int {
	if len(r.of.Key) == 0 {
		return r.anyCohort()
	}
	p := r.rules.pop
	return shed.Cohort(p.Seed.Hash(0, key), int64(p.TimeOfDay(now)/limit.Hour))
}

func (r *Rule) anyCohort() int { return int(r.rules.pop.UpTo(shed.Cohorts - 1)) }

// hasCapacity reports whether a class has capacity for one more request. The worker knows that of its own claim; where that does not suffice
// it looks at the record, but not again soon in vain.
func (r *Rule) hasCapacity(now lease.Millis, c shed.Class) bool {
	if now < r.until && r.fits(c) {
		return true
	}
	if now < r.retry[c] {
		return false
	}
	r.exchange(now, r.capacities[c], 1)
	if r.fits(c) {
		return true
	}
	r.retry[c] = now + lookEvery
	return false
}

// fits reports whether one more request is within the claim, and within the room of its class whatever the others do
// with theirs.
func (r *Rule) fits(c shed.Class) bool { return r.inFlight < min(r.claim, r.capacities[c]-r.others) }

// tick looks at the record, and decides by it what the ratio rejects until the next tick.
func (r *Rule) tick(now lease.Millis) {
	r.offered.tick(now)
	r.ticked = now
	r.retry = [shed.Classes]lease.Millis{}
	level, offered := r.exchange(now, r.of.Shed.Capacity, 0)
	if r.Ratio = 0; offered >= minRate {
		r.Ratio = r.of.Shed.Profile.Ratio(level)
	}
	r.cut = r.seen.Cut(int64(now), r.Ratio)
}

// claims is what the worker claims beside others: what it has in flight and a part of what is free beyond that, and at
// least need where room is left for it. kept: it has a claim that counts; the need of one class takes none of it away.
func (r *Rule) claims(others *totals, room, need int64, kept bool) int64 {
	free := max(0, r.of.Shed.Capacity-others.inFlight-r.inFlight)
	claim := min(r.inFlight+max(need, free/(spareOf*(others.workers+1))), room-others.claims)
	if kept && need > 0 {
		claim = max(claim, r.claim)
	}
	return max(claim, r.inFlight)
}

// exchange writes what the worker has in flight, and its claim. All claims together are no more than the capacity, whatever
// the order in which workers come here, so neither is what they have in flight; only what a worker has in flight that lost
// its row is beyond it. It moves the level if that is due.
func (r *Rule) exchange(now lease.Millis, room, need int64) (level, offered int64) {
	s, b, sums := r.of.Shed, r.rules, r.responses.Sums(int64(now))
	worker := int64(b.pop.Number)
	for range table.Tries {
		raw, version, ok := b.pop.Store.Get(r.key)
		if !ok {
			raw, version = nil, table.Absent
		}
		rec := &b.record
		if rec.read(raw); rec.updated == 0 {
			rec.updated, rec.level = now, s.Profile.Lowest()
		}
		found, before := rec.drop(worker, now), rec.level
		others := rec.totals(now)
		own := row{worker: worker, at: now, inFlight: r.inFlight, offered: r.offered.last, sums: sums}
		active := own.inFlight+own.offered+r.offered.count+need > 0
		if active {
			own.claim = r.claims(&others, room, need, found && now < r.until)
			rec.rows = append(rec.rows, own)
		}
		all := rec.totals(now)
		r.Utilization = shed.Utilization(all.inFlight, s.Capacity, s.Success, all.sums)
		rec.move(now, s, r.Utilization)
		if found || active || rec.level != before {
			b.buffer = rec.append(b.buffer[:0])
			if b.pop.Store.Set(r.key, b.buffer, version) == table.Raced {
				continue
			}
		}
		r.claim, r.others, r.until = own.claim, others.claims, now+rowLasts/2
		return rec.level, all.offered
	}
	return s.Profile.Lowest(), 0
}
