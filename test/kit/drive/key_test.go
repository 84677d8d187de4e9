package drive

import (
	"math"
	"testing"
)

func TestUniformReachesEveryKeyEvenly(t *testing.T) {
	const n, draws = 10, 100_000
	var seen [n]int
	keys := Uniform(n, 1)
	for range draws {
		seen[keys()]++
	}
	for k, got := range seen {
		if want := draws / n; math.Abs(float64(got-want)) > 500 { // 5 standard deviations
			t.Errorf("key %d drawn %d times, want about %d", k, got, want)
		}
	}
}

func TestZipfFollowsItsLaw(t *testing.T) {
	const n, draws = 1000, 200_000
	for _, s := range []float64{0, 0.99, 1, 2} {
		var sum float64
		for i := range n {
			sum += math.Pow(float64(i+1), -s)
		}
		var seen [n]int
		keys := Zipf(n, s, 7)
		for range draws {
			seen[keys()]++
		}
		for _, k := range []int{0, 1, 9, 99, 999} {
			p := math.Pow(float64(k+1), -s) / sum
			want, sigma := draws*p, math.Sqrt(draws*p*(1-p))
			if math.Abs(float64(seen[k])-want) > 5*sigma+1 {
				t.Errorf("s=%v: key %d drawn %d times, want %.0f ± %.0f", s, k, seen[k], want, 5*sigma)
			}
		}
	}
}

func TestTheSameSeedDrawsTheSameKeys(t *testing.T) {
	a, b, other := Zipf(100, 1, 3), Zipf(100, 1, 3), Zipf(100, 1, 4)
	differs := false
	for range 100 {
		x := a()
		if y := b(); x != y {
			t.Fatalf("%d and %d from one seed", x, y)
		}
		differs = differs || x != other()
	}
	if !differs {
		t.Error("another seed drew the same hundred keys")
	}
}

func TestEachAndHot(t *testing.T) {
	each, hot := Each(), Hot()
	for want := range uint32(5) {
		if got := each(); got != want {
			t.Errorf("Each = %d, want %d", got, want)
		}
		if got := hot(); got != 0 {
			t.Errorf("Hot = %d, want 0", got)
		}
	}
}
