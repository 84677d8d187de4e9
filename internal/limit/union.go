package limit

// Union is one counter in place of two, for keys that have to share one: from now on
// it refuses whatever either of them would, and where windows differ, or are two,
// perhaps more.
// Not for SlidingLog and Concurrency, where it is a.
func (l *Limit) Union(a, b State, now Micros) State {
	now = legalTime(now)
	switch l.spec.Algorithm {
	case TokenBucket:
		l.refill(&a, now)
		l.refill(&b, now)
		return State{At: max(a.At, b.At), Level: min(a.Level, b.Level), Aux: a.Aux}
	case FixedWindow:
		l.windowAt(&a, now)
		l.windowAt(&b, now)
	case SlidingWindow:
		l.slide(&a, now)
		l.slide(&b, now)
	default:
		return a
	}
	return State{At: max(a.At, b.At), Level: max(a.Level, b.Level), Aux: max(a.Aux, b.Aux)}
}
