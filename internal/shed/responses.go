package shed

// responseMillis is how long each half of a window of responses is filled. With more, the fast profile oscillates: what
// it did would be seen too late where few keys send much, of which each is at most a hundredth of what is known.
const responseMillis = 1000

// Sums are what responses of the last 1 to 2 s come to.
type Sums struct {
	Load, Loads   int64 // sum of the loads that were stated, per mille, and how many were
	Failed, Count int64 // responses that failed, and all
}

// Responses are sampled responses to one worker. The zero value has none. In each half a cohort gives at most one
// sample and a hundredth of all.
type Responses struct {
	halves[Sums]
}

// Add counts a response: whether it failed, and the load that it states, per mille; below 0: none.
func (r *Responses) Add(nowMillis int64, cohort int, failed bool, load int64) {
	half := r.move(nowMillis, responseMillis)
	if !r.quota[half].take(cohort & (Cohorts - 1)) {
		return
	}
	s := &r.of[half]
	s.Count++
	if failed {
		s.Failed++
	}
	if load >= 0 {
		s.Load += min(load, 1000)
		s.Loads++
	}
}

// Sums adds up what is known at a time.
func (r *Responses) Sums(nowMillis int64) Sums {
	r.move(nowMillis, responseMillis)
	a, b := &r.of[0], &r.of[1]
	return Sums{Load: a.Load + b.Load, Loads: a.Loads + b.Loads, Failed: a.Failed + b.Failed, Count: a.Count + b.Count}
}
