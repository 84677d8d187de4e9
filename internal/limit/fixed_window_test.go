package limit

import "testing"

// months is a calendar whose years have no leap day, and begin at multiples of 365 days since 1970.
var months = &Calendar{Per: PerMonth, Anchor: 1, Zone: "UTC", Windows: monthLengths{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}}

// monthLengths are the lengths of months in days.
type monthLengths [12]Micros

func (m monthLengths) Around(at Micros) *[6]Micros {
	begin, i := at-at%(365*Day)-365*Day, 0
	var b [6]Micros
	for ; begin <= at; i++ {
		b[0], b[1] = b[1], begin
		begin += m[i%12] * Day
	}
	for k := 2; k < len(b); k++ {
		b[k] = begin
		begin += m[i%12] * Day
		i++
	}
	return &b
}

// Windows of a calendar are as long as that has them. Where nobody knows the calendar they have the nominal length.
func TestCalendarWindow(t *testing.T) {
	spec := Spec{Algorithm: FixedWindow, Count: 100, Period: 30 * Day, Calendar: months}
	january := epoch - epoch%(365*Day)
	l := mustNew(t, spec)
	if start, end := l.WindowAt(january + Hour); start != january || end != january+31*Day || l.Runs(january, end-Second) != Second {
		t.Errorf("a window from %d to %d", start, end)
	}
	spec.Calendar = &Calendar{Per: PerMonth, Anchor: 1, Zone: "UTC"}
	if start, end := mustNew(t, spec).WindowAt(epoch); start != epoch-epoch%(30*Day) || end != start+30*Day {
		t.Errorf("a window from %d to %d", start, end)
	}
}
