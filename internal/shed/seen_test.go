package shed

import (
	"math/rand/v2"
	"testing"
)

const noon = int64(1_800_000_000_000) // ms

// samples is how many there are of a class and cohort, and of all below critical.
func (s *Seen) samples() (all int64) {
	for c := range Critical {
		for cohort := range Cohorts {
			all += s.cell(c, cohort)
		}
	}
	return all
}

// The rejected part is the ratio, to the sample and the probes: of random distributions, of which the newest second
// is in the next half.
func TestCutIsTheRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		s := new(Seen)
		weight := [Classes]int{r.IntN(5), r.IntN(5), r.IntN(5), 1 + r.IntN(5)}
		for n := range 1000 + r.IntN(5000) {
			pick, c := r.IntN(weight[0]+weight[1]+weight[2]+weight[3]), Bulk
			for ; pick >= weight[c]; c++ {
				pick -= weight[c]
			}
			s.Add(noon+int64(n), c, r.IntN(Cohorts))
		}
		ratio, now := r.Int64N(Million+1), noon+6000
		cut := s.Cut(now, ratio)
		var rejected int64 // in millionths of a sample, probes left out
		for c := range Critical {
			for cohort := range Cohorts {
				n := s.cell(c, cohort)
				switch {
				case c < cut.class, c == cut.class && cohort < cut.cohort:
					rejected += n * Million
				case c == cut.class && cohort == cut.cohort:
					rejected += n * cut.part
				}
			}
		}
		if all := s.samples(); all > 0 {
			if want := all * ratio; rejected > want || rejected < want-all {
				t.Fatalf("%v, ratio %d: rejected %d of %d samples, in millionths", weight, ratio, rejected, all)
			}
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name    string
		seen    [Classes][]int // the cohorts of each class
		ratio   int64
		class   Class
		cohort  int
		chance  int64
		rejects bool
	}{
		{"nothing to reject", [Classes][]int{Bulk: {1}}, 0, Bulk, 0, 0, false},
		{"a ratio below 0", [Classes][]int{Bulk: {1}}, -5, Bulk, 0, 0, false},
		{"nothing seen", [Classes][]int{}, 300_000, Bulk, 0, 0, false},
		{"only critical seen", [Classes][]int{Critical: {1, 2}}, 300_000, Bulk, 7, 0, false},
		{"only critical seen: never critical", [Classes][]int{Critical: {1, 2}}, Million, Critical, 1, 0, false},
		{"the lower cohort", [Classes][]int{Normal: {1, 2}}, 500_000, Normal, 1, 900_000, true},
		{"the higher cohort", [Classes][]int{Normal: {1, 2}}, 500_000, Normal, 2, 0, false},
		{"the last in part", [Classes][]int{Normal: {1, 2}}, 750_000, Normal, 2, 499_999, true},
		{"the last, not", [Classes][]int{Normal: {1, 2}}, 750_000, Normal, 2, 500_000, false},
		{"the lower class first", [Classes][]int{Normal: {1}, Bulk: {90}}, 500_000, Normal, 1, 0, false},
		{"the lower class whole", [Classes][]int{Normal: {1}, Bulk: {90}}, 500_000, Bulk, 127, 0, true},
		{"all", [Classes][]int{Normal: {1}, Bulk: {90}}, Million, Normal, 127, 989_999, true},
		{"a probe", [Classes][]int{Normal: {1}, Bulk: {90}}, Million, Bulk, 127, 990_000, false},
	} {
		s := new(Seen)
		for class, cohorts := range c.seen {
			for _, cohort := range cohorts {
				s.Add(noon, Class(class), cohort)
			}
		}
		if got := s.Cut(noon+1, c.ratio).Rejects(c.class, c.cohort, c.chance); got != c.rejects {
			t.Errorf("%s: %v, want %v", c.name, got, c.rejects)
		}
	}
	if (Cut{}).Rejects(Bulk, 0, 0) {
		t.Error("the zero value rejects")
	}
}

// One key moves at most a hundredth, whatever it sends, before the others and after them.
func TestOneKey(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, others := range []int{0, 100, 1000, 20_000} {
		s, p := new(Seen), new(Responses)
		key := func() {
			for range 50_000 {
				s.Add(noon, Class(r.IntN(Classes)), 7)
				p.Add(noon, 7, true, 1000)
			}
		}
		key()
		for range others {
			s.Add(noon, Normal, r.IntN(Cohorts))
			p.Add(noon, r.IntN(Cohorts), false, 0)
			s.Add(noon, Normal, 7)
		}
		key()
		q := s.quota[s.move(noon, seenMillis)]
		if q.of[7] > q.all/100+1 {
			t.Errorf("%d others: %d of %d samples are of one key", others, q.of[7], q.all)
		}
		if others > 0 && int(q.all) < others/2 {
			t.Errorf("%d others: only %d samples", others, q.all)
		}
		if sums := p.Sums(noon); sums.Failed > sums.Count/50+1 || sums.Load > 1000*(sums.Loads/50+1) {
			t.Errorf("%d others: %+v", others, sums)
		}
	}
}

// What is older than both halves is gone, what is younger than one is there; a clock that stands still or jumps is no
// reason to panic, nor to believe what may be old.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name      string
		then, now int64 // in thousandths of a half
		want      int64
	}{
		{"at once", 0, 0, 1}, {"late in the half", 0, 999, 1}, {"in the next half", 0, 1999, 1}, {"two halves later", 0, 2000, 0},
		{"from late in a half to late in the next", 999, 1999, 1}, {"from late in a half to the one after the next", 999, 2000, 0},
		{"before", 0, -1, 0}, {"before 1970", 0, -2_000_000_000, 0},
	} {
		s, r := new(Seen), new(Responses)
		s.Add(noon+c.then*seenMillis/1000, Low, 3)
		r.Add(noon+c.then*responseMillis/1000, 3, true, 500)
		s.Cut(noon+c.now*seenMillis/1000, 500_000)
		sums := r.Sums(noon + c.now*responseMillis/1000)
		if s.samples() != c.want || sums != (Sums{Load: 500 * c.want, Loads: c.want, Failed: c.want, Count: c.want}) {
			t.Errorf("%s: %d samples, %+v", c.name, s.samples(), sums)
		}
	}
}

func TestResponses(t *testing.T) {
	r := new(Responses)
	r.Add(noon, 1, false, -1)
	r.Add(noon, 2, true, 0)
	r.Add(noon, 3, false, 9999)
	r.Add(noon, 131, false, 9999) // cohort 3 has its sample
	if got := r.Sums(noon); got != (Sums{Load: 1000, Loads: 2, Failed: 1, Count: 3}) {
		t.Errorf("%+v", got)
	}
	r.Add(noon+responseMillis, 1, true, 500)
	if got := r.Sums(noon + responseMillis); got != (Sums{Load: 1500, Loads: 3, Failed: 2, Count: 4}) {
		t.Errorf("two halves are %+v", got)
	}
}

// Keys are spread over cohorts evenly, and each hour anew.
func TestCohort(t *testing.T) {
	var n [Cohorts]int
	same := 0
	for key := range uint64(128_000) {
		c := Cohort(key, 490_000)
		n[c]++
		if c == Cohort(key, 490_001) {
			same++
		}
	}
	for c, n := range n {
		if n < 850 || n > 1150 {
			t.Errorf("cohort %d has %d of 128,000 keys", c, n)
		}
	}
	if same > 1200 {
		t.Errorf("%d of 128,000 keys have their cohort in the next hour, too", same)
	}
}
