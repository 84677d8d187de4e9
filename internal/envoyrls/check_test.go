package envoyrls

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A check (hits_addend: 0) returns what is left, what the replica has on lease included,
// and changes nothing: what is reported after it is charged as if there had been none.
func TestCheckThenReport(t *testing.T) {
	trace(t, func() steps {
		return steps{
			{request(costing(0, of("one", "a"))), "OK: OK 1"},
			{request(of("one", "a")), "OK: OK 0"},
			{request(costing(0, of("one", "a"))), "OVER: OVER 0"},
			{request(of("one", "a")), "OVER: OVER 0"},
		}
	})
	trace(t, func() (list steps) {
		for left := uint32(5); left > 0; left-- {
			list = append(list, steps{
				{request(costing(0, of("five", "a"))), "OK: OK " + strconvU(left)},
				{request(costing(0, of("five", "a"))), "OK: OK " + strconvU(left)},
				{request(of("five", "a")), "OK: OK " + strconvU(left-1)},
			}...)
		}
		return append(list, steps{{request(costing(0, of("five", "a"))), "OVER: OVER 0"}}...)
	})
	trace(t, func() (list steps) { // the costs of what passes its check are known when it has ended
		report, check := request(costing(45, of("hundred", "a"))), request(costing(0, of("hundred", "a")))
		list = steps{{check, "OK: OK 100"}, {report, "OK: OK 55"}, {check, "OK: OK 55"}, {report, "OK: OK 10"}, {check, "OK: OK 10"}, {report, "OVER: OVER 0"}}
		for range 17 {
			list = append(list, steps{{check, "OVER: OVER 0"}}...)
		}
		return list
	}, charging)
}

// Whatever the pauses and whatever goes on behind a lease cache, checks return what is left
// to the unit, where one replica sees all requests.
func TestChecksAreExact(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		cached(t, 1, dayYAML, func(t *testing.T, b []*cachedBench) {
			for left := uint32(100); left > 0; {
				time.Sleep(time.Duration(random.ExpFloat64() * float64(200*time.Millisecond)))
				if random.IntN(3) == 0 {
					if got, want := inShort(b[0].ask(request(costing(0, of("hundred", "a"))))), "OK: OK "+strconvU(left); got != want {
						t.Fatalf("seed %d: a check returns %s, want %s", seed, got, want)
					}
					continue
				}
				left--
				if got, want := inShort(b[0].ask(request(of("hundred", "a")))), "OK: OK "+strconvU(left); got != want {
					t.Fatalf("seed %d: the answer to a request is %s, want %s", seed, got, want)
				}
			}
		})
	}
}

// A flood of checks costs the store no more than a flood of requests, and keeps none of
// these from what is left.
func TestFloodOfChecks(t *testing.T) {
	cached(t, 1, dayYAML, func(t *testing.T, b []*cachedBench) {
		check := request(costing(0, of("hundred", "a")))
		for second := range 10 {
			before := b[0].far.asked()
			for range 500 {
				b[0].ask(check)
				time.Sleep(2 * time.Millisecond)
			}
			if asks := b[0].far.asked() - before; asks > 20 {
				t.Errorf("%d asks for 500 checks in a second", asks)
			}
			if got, want := inShort(b[0].ask(request(of("hundred", "a")))), "OK: OK "+strconvU(uint32(99-second)); got != want {
				t.Errorf("a request among checks: %s, want %s", got, want)
			}
		}
	})
}
