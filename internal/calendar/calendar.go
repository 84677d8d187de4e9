// Package calendar computes the begin of calendar windows: days, weeks and months by the clock of a time zone. Package limit
// takes these times as numbers.
//
// A window begins when the zone's clock first shows its date. If midnight does not exist or exists twice, it begins with the
// first moment of the day. A date that was left out has no window. So windows have no gaps, and a day has 23, 24 or 25 hours,
// rarely others.
//
// The clocks of time zones come from the database of the machine, or else from the Go release. The names of time zones come
// from the Go release only.
package calendar

import (
	_ "embed"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines without the database

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// zones are the names of the Go release, a line each. TestZones writes them anew.
//
//go:embed zones.txt
var zones string

var names = sync.OnceValue(func() []string { return strings.Fields(zones) })

// made has the windows of each calendar once, so that they are comparable: there are no more than names of zones, times 39.
var made sync.Map

// Windows are those of a legal calendar. The error is what to write instead of the name of its zone.
func Windows(c limit.Calendar) (limit.Windows, error) {
	if !slices.Contains(names(), c.Zone) {
		return nil, unknown(c.Zone)
	}
	c.Windows = nil
	if w, found := made.Load(c); found {
		return w.(*windows), nil
	}
	loc, err := time.LoadLocation(c.Zone)
	if err != nil {
		return nil, unknown(c.Zone)
	}
	w, _ := made.LoadOrStore(c, &windows{per: c.Per, anchor: int(c.Anchor), loc: loc})
	return w.(*windows), nil
}

// unknown is the error for a name that is none of a zone. People write the city, or miss a letter.
func unknown(name string) error {
	reason := strict.Quote(name) + " is no time zone"
	near := ""
	for _, zone := range names() {
		if city := path.Base(zone); city != zone && strings.EqualFold(city, strings.ReplaceAll(name, " ", "_")) {
			near = zone
		}
	}
	if near == "" {
		near = strict.Nearest(name, names())
	}
	if near != "" {
		reason += " (did you mean " + near + "?)"
	}
	return errors.New(reason + "; write its IANA name, such as Europe/Berlin, or UTC")
}

// windows are those of one calendar. It is safe for concurrent use.
type windows struct {
	per    limit.Per
	anchor int
	loc    *time.Location
	last   atomic.Pointer[[6]limit.Micros] // around the time that was asked for last
}

// Around implements limit.Windows. It costs some nanoseconds, and some microseconds when another window begins.
func (w *windows) Around(at limit.Micros) *[6]limit.Micros {
	if b := w.last.Load(); b != nil && b[1] <= at && at < b[2] {
		return b
	}
	n := w.number(time.UnixMicro(int64(at)).In(w.loc))
	for w.begin(n+1) <= at { // the clock was set back behind midnight
		n++
	}
	for w.begin(n) > at {
		n--
	}
	var b [6]limit.Micros
	b[1] = w.begin(n)
	for before := n - 1; ; before-- {
		if b[0] = w.begin(before); b[0] < b[1] {
			break
		}
	}
	for i := 2; i < len(b); i++ {
		for b[i] = b[i-1]; b[i] == b[i-1]; { // of a date that was left out
			n++
			b[i] = w.begin(n)
		}
	}
	w.last.Store(&b)
	return &b
}

// number is that of the window to which a date belongs; the next window has the next number.
func (w *windows) number(t time.Time) int {
	switch days := int(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)); w.per {
	case limit.PerDay:
		return days
	case limit.PerWeek:
		return (days - w.firstDay()) / 7
	}
	n := t.Year()*12 + int(t.Month()) - 1
	if t.Day() < w.dayOf(n) {
		n--
	}
	return n
}

// firstDay is the first day of week 0, counted from Thursday, 1 January 1970.
func (w *windows) firstDay() int { return (w.anchor+3)%7 - 7 }

// dayOf is on which day of the month a window begins.
func (w *windows) dayOf(month int) int {
	last := time.Date(month/12, time.Month(month%12+2), 0, 0, 0, 0, 0, time.UTC).Day()
	return min(w.anchor, last)
}

// begin is when a window begins.
func (w *windows) begin(n int) limit.Micros {
	date := time.Date(1970, 1, 1+n, 0, 0, 0, 0, time.UTC)
	switch w.per {
	case limit.PerWeek:
		date = time.Date(1970, 1, 1+w.firstDay()+7*n, 0, 0, 0, 0, time.UTC)
	case limit.PerMonth:
		date = time.Date(n/12, time.Month(n%12+1), w.dayOf(n), 0, 0, 0, 0, time.UTC)
	}
	return limit.Micros(first(date, w.loc).UnixMicro())
}

// first is the first time when the clock of a place shows a date, given as its midnight in UTC, or a later one.
func first(date time.Time, loc *time.Location) time.Time {
	for t := date.Add(-48 * time.Hour).In(loc); ; {
		_, to := t.ZoneBounds()
		if !to.IsZero() && !to.After(t) { // on the last day of a leap year, which ends too early in package time
			to = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		_, ahead := t.Zone()
		at := date.Add(-time.Duration(ahead) * time.Second)
		if at.Before(t) { // the clock was set ahead over midnight
			at = t
		}
		if to.IsZero() || at.Before(to) {
			return at
		}
		t = to.In(loc)
	}
}
