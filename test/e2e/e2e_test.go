// Package e2e proves the guarantees on the real thing: Envoys with the built
// filter, the built region, real connections, real faults.
//
// Each scenario states its bound and where the bound comes from. Counts are
// bounded; speed is not: a scenario may take longer on a busy machine, but it
// does not fail for that.
//
// What would take long runs in a small form that puts the same pressure on the
// same mechanism; WEIR_LONG=1 (`make test-long`) runs the whole.
//
// What needs no Envoy is in test/tiers. Tests that wait more than they compute run beside each other, after all others
// ([testing.T.Parallel]). A test that counts under load, or has timeouts of less than a
// second, has the machine for itself.
package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// long reports whether the scenarios run at their full size.
var long = os.Getenv("WEIR_LONG") != ""

// onlyLong leaves to `make test-long` what takes long and is no guarantee's only proof.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("runs with WEIR_LONG=1, as make test-long does")
	}
}

// TestMain lets four tests run at once, also on a machine of two cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}

// offer runs a load and fails the test if a request got no answer, or one that is
// neither 200 nor 429.
func offer(t *testing.T, l drive.Load) *drive.Result {
	t.Helper()
	tally := try(t, l)
	if n := tally.Other(200, 429); n > 0 {
		t.Fatalf("%d of %d requests got neither 200 nor 429: %v, first error: %v",
			n, tally.Sent(), tally.Status, tally.FirstError)
	}
	return tally
}

// try runs a load, whatever its answers are.
func try(t *testing.T, l drive.Load) *drive.Result {
	t.Helper()
	tally, err := drive.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Sent() == 0 {
		t.Fatal("the load was over before the first request")
	}
	return tally
}

// spends floods a key until want units are admitted, and then once more. One flood may
// end while a worker whose requests are over fetches the last units ahead: these come
// back when their lease is idle, and the next flood finds them.
func spends(t *testing.T, want int64, flood func() int64) {
	t.Helper()
	var admitted int64
	proc.Eventually(t, 20*time.Second, fmt.Sprintf("%d units are admitted", want), func() bool {
		admitted += flood()
		return admitted >= want
	})
	if admitted += flood(); admitted != want {
		t.Errorf("admitted %d, want %d", admitted, want)
	}
}

// exactly offers requests for one key until all of an offer are decided in time, which a
// busy machine may not manage, and fails the test unless just so many were admitted. Each
// that was not decided, and refused with 503 for that, may have cost a unit.
func exactly(t *testing.T, what string, want int, offer func() (statuses map[int]int)) {
	t.Helper()
	ok, late := 0, 0
	proc.Eventually(t, time.Minute, what+": all requests are decided in time", func() bool {
		statuses, sent := offer(), 0
		for _, n := range statuses {
			sent += n
		}
		missed := statuses[http.StatusServiceUnavailable]
		if other := sent - statuses[http.StatusOK] - statuses[http.StatusTooManyRequests] - missed; other > 0 {
			t.Fatalf("%s: %v", what, statuses)
		}
		ok, late = ok+statuses[http.StatusOK], late+missed
		return missed == 0
	})
	if ok > want || ok < want-late {
		t.Errorf("%s: admitted %d, want %d; %d were not decided in time", what, ok, want, late)
	}
}

// awaitRules waits until every PoP has the rules of its region. One worker fetches
// them; the others take them over at their next tick, every 100 ms, which nothing shows:
// the rest is for a machine that is busy. No day ends soon afterwards.
func awaitRules(t *testing.T, s *stack.Stack) {
	t.Helper()
	for _, p := range s.PoPs {
		proc.Eventually(t, 15*time.Second, p.Name+" has fetched the rules", func() bool {
			return p.Stats("wasmcustom.weir.calls.reason.answered")["wasmcustom.weir.calls.reason.answered"] > 0
		})
	}
	time.Sleep(1500 * time.Millisecond)
	proc.AwaitDay()
}
