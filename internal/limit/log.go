package limit

import "sort"

// The log of a sliding log: entries by time with running sums, of which the
// first ones may be over. Level is the sum of the others, the live ones.

// reclaimFrom is the least dead front that is worth reclaiming.
const reclaimFrom = 32

// over is how many entries at the front of Log are over, 0 <= over <= len(Log).
func (st *State) over() int { return int(st.Aux) }

// Live is the entries of a log that are not over.
func (st *State) Live() []Charge { return st.Log[st.Aux:] }

// LogBytes is the memory that a key of the limit may need for its log, in bytes; 0: it has none. Half of the entries may be
// over, and the log takes twice its memory while it grows.
func (s Spec) LogBytes() int64 {
	if s.Algorithm != SlidingLog {
		return 0
	}
	charges := s.Count
	if s.ChargeRejected {
		charges *= 2
	}
	return 64 * (charges + reclaimFrom)
}

// insert adds a charge by its time, behind those of the same time: charges of
// one microsecond stay entries of their own.
func (st *State) insert(at Micros, units int64) {
	if dead := st.over(); dead >= reclaimFrom && 2*dead >= len(st.Log) {
		st.reclaim()
	}
	i := len(st.Log)
	st.Log = append(st.Log, Charge{})
	for ; i > st.over() && st.Log[i-1].At > at; i-- {
		st.Log[i] = Charge{At: st.Log[i-1].At, Sum: st.Log[i-1].Sum + units}
	}
	st.Log[i] = Charge{At: at, Sum: st.sumBefore(i) + units}
	st.Level += units
}

// reclaim moves the live entries to the front, or to smaller memory when they
// fill less than a quarter of it, and starts their sums anew.
func (st *State) reclaim() {
	live, base := st.Live(), st.sumBefore(st.over())
	to := st.Log[:0]
	if small := 2 * max(len(live), reclaimFrom); small < cap(st.Log)/2 {
		to = make([]Charge, 0, small)
	}
	for _, c := range live {
		to = append(to, Charge{At: c.At, Sum: c.Sum - base})
	}
	st.Log, st.Aux = to, 0
}

// pullTo moves a log whose clock was ahead back to now: what was charged is
// charged at now, and what lay ahead of the log's time (leases that are out)
// lies as far ahead of now.
func (st *State) pullTo(now Micros) {
	for i := st.firstAfter(now); i < len(st.Log); i++ {
		st.Log[i].At = now + max(0, st.Log[i].At-st.At)
	}
	st.At = now
}

// newest is the time of the last live entry, or long ago.
func (st *State) newest() Micros {
	if n := len(st.Log); n > st.over() {
		return st.Log[n-1].At
	}
	return -MaxPeriod
}

// sumBefore is the running sum before entry i, over <= i <= len(Log).
func (st *State) sumBefore(i int) int64 {
	if i == 0 {
		return 0
	}
	return st.Log[i-1].Sum
}

// firstAfter is the index of the first live entry later than t; len(Log) if none.
func (st *State) firstAfter(t Micros) int {
	live := st.Live()
	if len(live) > 0 && live[0].At > t {
		return st.over()
	}
	return st.over() + sort.Search(len(live), func(i int) bool { return live[i].At > t })
}

// firstHolding is the index of the first live entry up to which the live entries
// hold so many units, 1 <= units <= Level.
func (st *State) firstHolding(units int64) int {
	live, base := st.Live(), st.sumBefore(st.over())
	return st.over() + sort.Search(len(live), func(i int) bool { return live[i].Sum-base >= units })
}
