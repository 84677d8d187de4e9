package round

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
)

func TestNoteSaysWhatThrowsDoubtOnARow(t *testing.T) {
	m := &Mode{Status: 200}
	if got := m.Note(0); got != "" {
		t.Errorf("before the first round: %q", got)
	}
	r := &drive.Result{Elapsed: 2 * time.Second, Due: 1000, Done: 900, Failed: 3, Missed: 97, CPU: 9 * time.Millisecond}
	r.Status[200], r.Status[429] = 891, 9
	m.Seen.add(r)
	want := "450 req/s, driver 10.0 µs/req, OFFERED 500 req/s NOT REACHED, 3 failed, 1.00 % status 429"
	if got := m.Note(500); got != want {
		t.Errorf("note = %q, want %q", got, want)
	}
	if got := m.Note(0); strings.Contains(got, "OFFERED") {
		t.Errorf("a closed loop offers no rate: %q", got)
	}
}

func TestCostIsSpreadOverTheRequests(t *testing.T) {
	m := &Mode{Meters: make([]Meter, 2)}
	r := &drive.Result{Done: 1000, Elapsed: time.Second}
	m.cost([]time.Duration{0, time.Millisecond}, []time.Duration{2 * time.Millisecond, 4 * time.Millisecond}, r)
	if m.CPU[0] != 5 || m.Parts[0][0] != 2 || m.Parts[1][0] != 3 {
		t.Errorf("CPU %v, parts %v; want 5 µs of 2 and 3", m.CPU, m.Parts)
	}
}

// What a server uses with nothing to do is not the cost of a request, and nothing
// costs less than nothing.
func TestIdlingIsTakenOff(t *testing.T) {
	m := &Mode{Meters: []Meter{{Idle: 0.001}, {Idle: 0.5}}}
	r := &drive.Result{Done: 1000, Elapsed: time.Second}
	m.cost([]time.Duration{0, 0}, []time.Duration{3 * time.Millisecond, 100 * time.Millisecond}, r)
	if m.Parts[0][0] != 2 || m.Parts[1][0] != 0 {
		t.Errorf("parts %v; want 2 µs and 0", m.Parts)
	}
}
