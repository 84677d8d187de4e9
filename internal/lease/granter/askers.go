package granter

// Askers counts the holders that ask for a key, among whom a window is shared: those
// whose want is Fresh in this lease interval, and at least those of the last. After that
// the count is halved in each interval. It does not drop at once, because when a window
// begins many holders have a lease that they fetched ahead and do not ask: the first one to
// ask must not get a share as if it were alone. The zero value has counted no holder.
type Askers struct {
	Interval int64 // number of the lease interval in which Now asked
	Now      int32
	Before   int32
}

// Note counts an ask in a lease interval.
func (a *Askers) Note(interval int64, fresh bool) {
	if passed := interval - a.Interval; passed != 0 {
		a.Before = max(faded(a.Now, passed-1), faded(a.Before, passed))
		a.Interval, a.Now = interval, 0
	}
	if fresh {
		a.Now++
	}
}

// Count is among how many holders to share; 0 if none has asked lately.
func (a *Askers) Count() int64 { return int64(a.Now) + int64(a.Before) }

// faded is n halved so many times; a clock that stepped back fades nothing.
func faded(n int32, times int64) int32 { return n >> min(max(times, 0), 31) }
