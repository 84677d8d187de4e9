package limit

// Union is one counter in place of two, for keys that have to share one. It refuses what
// either of them would refuse, and perhaps more, where their windows differ or an algorithm
// counts two. For SlidingLog and Concurrency it is a.
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
