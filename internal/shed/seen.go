package shed

// Cohorts is how many groups keys are divided into: those of a group are rejected together.
const Cohorts = 128

// Cohort is the group of a key by its hash, from 0 to 127: another one each hour, so that it is not always the same
// clients that are rejected first.
func Cohort(hash uint64, hour int64) int {
	const odd = 0x9e3779b97f4a7c15 // the golden ratio; the rest is the end of splitmix64
	h := hash + uint64(hour)*odd
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int((h ^ h>>31) % Cohorts)
}

// seenMillis is how long each half of a window of requests is filled: what is known is 5 to 10 s old at most.
const seenMillis = 5000

// quota counts samples by cohort, and lets none have more than a hundredth of them and one.
type quota struct {
	of  [Cohorts]int32
	all int32
}

// take counts a sample, unless its cohort has its part.
func (q *quota) take(cohort int) bool {
	if q.of[cohort] > q.all/100 || q.all == 1<<31-1 {
		return false
	}
	q.of[cohort]++
	q.all++
	return true
}

// halves is a window of two halves, with what was counted in each, and their quotas. The zero value is of 1970. The newer half is
// the one with the lowest bit of its number.
type halves[T any] struct {
	began int64 // number of the newer half since 1970
	quota [2]quota
	of    [2]T
}

// move goes on to a time, and returns the newer half; a half lasts for so many ms. It empties what is too old: a clock
// that stands still empties nothing, and one that jumps empties both halves.
func (h *halves[T]) move(nowMillis, lasts int64) (newer int) {
	now := nowMillis / lasts
	newer = int(now & 1)
	if now == h.began {
		return newer
	}
	for half := range h.of {
		if half == newer || now != h.began+1 {
			var none T
			h.quota[half], h.of[half] = quota{}, none
		}
	}
	h.began = now
	return newer
}

// Seen is what one worker was asked for in the last 5 to 10 s, whatever became of it. The zero value has seen nothing.
// In each half a cohort gives at most one sample and a hundredth of all. So does one key, however much it sends.
type Seen struct {
	halves[[Classes][Cohorts]int32]
}

// Add counts a request. One that is to be rejected by plain chance has a cohort by chance, here and in [Cut.Rejects].
func (s *Seen) Add(nowMillis int64, c Class, cohort int) {
	half := s.move(nowMillis, seenMillis)
	if cohort = cohort & (Cohorts - 1); s.quota[half].take(cohort) {
		s.of[half][min(c, Critical)][cohort]++
	}
}

// Cut is which requests are rejected: those of lower classes; of the class itself, those of lower cohorts; and of the
// cohort itself some by chance. The zero value rejects none.
type Cut struct {
	class  Class
	cohort int
	part   int64 // of the cohort, in millionths
}

// Cut is where to cut, so that the ratio of the requests below [Critical] is rejected: from the lowest class and
// cohort on. Where none has been seen, as after a jump of the clock, it rejects none.
func (s *Seen) Cut(nowMillis, ratio int64) Cut {
	s.move(nowMillis, seenMillis)
	var all int64
	for c := range Critical {
		for cohort := range Cohorts {
			all += s.cell(c, cohort)
		}
	}
	left := all * min(ratio, Million) // samples to reject, in millionths
	if left <= 0 {
		return Cut{}
	}
	for c := range Critical {
		for cohort := range Cohorts {
			n := s.cell(c, cohort)
			if left < n*Million {
				return Cut{class: c, cohort: cohort, part: left / n}
			}
			left -= n * Million
		}
	}
	return Cut{class: Critical}
}

func (s *Seen) cell(c Class, cohort int) int64 {
	return int64(s.of[0][c][cohort]) + int64(s.of[1][c][cohort])
}

// probes is which part of each class no cut rejects, in millionths: without them nobody would notice that the upstream
// works again.
const probes = Million / 100

// Rejects reports whether a request is rejected. The chance is a number from 0 to 999,999 that is as likely as each
// other and has nothing to do with the cohort.
func (c Cut) Rejects(class Class, cohort int, chance int64) bool {
	switch {
	case class >= Critical || chance >= Million-probes:
		return false
	case class != c.class:
		return class < c.class
	case cohort != c.cohort:
		return cohort < c.cohort
	}
	return chance < c.part
}
