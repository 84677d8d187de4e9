package envoyrls

import (
	"testing"
	"time"
)

// A check (hits_addend: 0) returns what is left, what the replica has on lease included,
// and changes nothing: what is reported after it is charged as if there had been none.
func TestCheckThenReport(t *testing.T) {
	trace(t, steps{
		{request(costing(0, of("one", "a"))), "OK: OK 1"},
		{request(of("one", "a")), "OK: OK 0"},
		{request(costing(0, of("one", "a"))), "OVER: OVER 0"},
		{request(of("one", "a")), "OVER: OVER 0"},
	})
	// The costs of what passes its check are known when it has ended.
	report, check := request(costing(45, of("hundred", "a"))), request(costing(0, of("hundred", "a")))
	list := steps{{check, "OK: OK 100"}, {report, "OK: OK 55"}, {check, "OK: OK 55"}, {report, "OK: OK 10"}, {check, "OK: OK 10"}, {report, "OVER: OVER 0"}}
	for range 17 {
		list = append(list, steps{{check, "OVER: OVER 0"}}...)
	}
	trace(t, list, charging)
}

// A flood of checks costs the store no more than a flood of requests, and keeps none of these from what is left.
func TestFloodOfChecks(t *testing.T) {
	cached(t, func(t *testing.T, b *cachedBench) {
		check := request(costing(0, of("hundred", "a")))
		for second := range 10 {
			before := b.far.asked()
			for range 500 {
				b.ask(check)
				time.Sleep(2 * time.Millisecond)
			}
			if asks := b.far.asked() - before; asks > 20 {
				t.Errorf("%d asks for 500 checks in a second", asks)
			}
			if got, want := inShort(b.ask(request(of("hundred", "a")))), "OK: OK "+strconvU(uint32(99-second)); got != want {
				t.Errorf("a request among checks: %s, want %s", got, want)
			}
		}
	})
}
