package calendar_test

import (
	"archive/zip"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var update = flag.Bool("update", false, "write zones.txt anew from the Go release")

// TestZones: zones.txt has the names of the Go release. TestEndOfLeapYear loads each.
func TestZones(t *testing.T) {
	root := fatal.Get(exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output())(t)
	z := fatal.Get(zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")))(t)
	defer func() { _ = z.Close() }()
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	want := strings.Join(names, "\n") + "\n"
	if *update {
		fatal.If(t, os.WriteFile("zones.txt", []byte(want), 0o644))
	}
	if got, err := os.ReadFile("zones.txt"); err != nil || string(got) != want {
		t.Error("zones.txt is not that of this Go release: run this test with -update", err)
	}
}

func windows(t testing.TB, c limit.Calendar) limit.Windows {
	t.Helper()
	return fatal.Get(calendar.Windows(c))(t)
}

// begins is Around as times of the zone.
func begins(t testing.TB, c limit.Calendar, at time.Time) (out []time.Time) {
	t.Helper()
	for _, b := range windows(t, c).Around(limit.Micros(at.UnixMicro())) {
		out = append(out, time.UnixMicro(int64(b)).In(at.Location()))
	}
	return out
}

// Windows whose begin or length people get wrong.
func TestBegins(t *testing.T) {
	const form = "2006-01-02T15:04:05Z07:00"
	for _, c := range []struct {
		name   string
		c      limit.Calendar
		at     string
		begin  string
		length time.Duration
	}{
		{"a short day", limit.Calendar{Per: limit.PerDay, Zone: "Europe/Berlin"}, "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", 23 * time.Hour},
		{"a long day", limit.Calendar{Per: limit.PerDay, Zone: "Europe/Berlin"}, "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", 25 * time.Hour},
		{"a date left out", limit.Calendar{Per: limit.PerDay, Zone: "Pacific/Apia"}, "2011-12-29T23:59:59-10:00", "2011-12-29T00:00:00-10:00", 24 * time.Hour},
		{"the date behind it", limit.Calendar{Per: limit.PerDay, Zone: "Pacific/Apia"}, "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", 24 * time.Hour},
		{"the date comes twice", limit.Calendar{Per: limit.PerDay, Zone: "America/St_Johns"}, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", 25 * time.Hour},
		{"29 days", limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "UTC"}, "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", 29 * 24 * time.Hour},
		{"31 days and an hour less", limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "America/New_York"}, "2026-03-31T23:59:59-04:00", "2026-03-01T00:00:00-05:00", 31*24*time.Hour - time.Hour},
		{"before the anchor", limit.Calendar{Per: limit.PerMonth, Anchor: 15, Zone: "Europe/Berlin"}, "2026-01-14T23:59:59+01:00", "2025-12-15T00:00:00+01:00", 31 * 24 * time.Hour},
		{"the 31st in February", limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: "UTC"}, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", 31 * 24 * time.Hour},
		{"a week from Monday", limit.Calendar{Per: limit.PerWeek, Anchor: 1, Zone: "UTC"}, "2026-01-01T00:00:00Z", "2025-12-29T00:00:00Z", 7 * 24 * time.Hour},
		{"a week from Sunday", limit.Calendar{Per: limit.PerWeek, Anchor: 7, Zone: "Europe/Berlin"}, "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", 7*24*time.Hour + time.Hour},
	} {
		at := fatal.Get(time.Parse(form, c.at))(t)
		got := begins(t, c.c, at.In(fatal.Get(time.LoadLocation(c.c.Zone))(t)))
		if b := got[1].Format(form); b != c.begin || got[2].Sub(got[1]) != c.length {
			t.Errorf("%s: at %s a window begins at %s and lasts %s, want %s and %s", c.name, c.at, b, got[2].Sub(got[1]), c.begin, c.length)
		}
	}
}

// TestEndOfLeapYear: at the end of 2096, which no database lists, no zone changes its clock: days and months have their usual length.
func TestEndOfLeapYear(t *testing.T) {
	names := fatal.Get(os.ReadFile("zones.txt"))(t)
	for _, name := range strings.Fields(string(names)) {
		zone := fatal.Get(time.LoadLocation(name))(t)
		at, want := time.Date(2096, 12, 31, 12, 0, 0, 0, zone), time.Date(2096, 12, 31, 0, 0, 0, 0, zone)
		if got := begins(t, limit.Calendar{Per: limit.PerDay, Zone: name}, at); !got[1].Equal(want) || got[3].Sub(got[1]) != 48*time.Hour {
			t.Errorf("%s: days begin at %v", name, got)
		}
		if got := begins(t, limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: name}, at); !got[1].Equal(want) || got[2].Sub(got[1]) != 31*24*time.Hour {
			t.Errorf("%s: months begin at %v", name, got)
		}
	}
}

// TestAgainstClock holds days against the zone's clock, read minute by minute, where clocks change at midnight: a day has
// begun when its date has been shown.
func TestAgainstClock(t *testing.T) {
	for name, from := range map[string]string{
		"America/Sao_Paulo": "2018-11-03", "America/Havana": "2026-10-31", "America/St_Johns": "2010-11-05", "Asia/Beirut": "2026-03-28",
		"Pacific/Apia": "2011-12-28", "Pacific/Kwajalein": "1993-08-19", "Africa/Cairo": "2026-04-23", "America/Asuncion": "2023-03-24",
	} {
		loc := fatal.Get(time.LoadLocation(name))(t)
		at := fatal.Get(time.ParseInLocation(time.DateOnly, from, loc))(t)
		w := windows(t, limit.Calendar{Per: limit.PerDay, Zone: name})
		latest, began := at.Format(time.DateOnly), at
		for range 4 * 24 * 60 {
			if date := at.Format(time.DateOnly); date > latest {
				latest, began = date, at
			}
			if got := w.Around(limit.Micros(at.UnixMicro()))[1]; got != limit.Micros(began.UnixMicro()) {
				t.Fatalf("%s at %v: the day began %v, by the clock %v", name, at, time.UnixMicro(int64(got)).In(loc), began)
			}
			at = at.Add(time.Minute)
		}
	}
}

// Windows of one calendar are one value, whoever asks for them; those of another one are not.
func TestComparable(t *testing.T) {
	c := limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "Europe/Berlin"}
	other := c
	other.Anchor = 2
	if windows(t, c) != windows(t, c) || windows(t, c) == windows(t, other) {
		t.Error("windows do not show of which calendar they are")
	}
	got := c
	got.Windows = windows(t, c)
	if windows(t, got) != windows(t, c) {
		t.Error("a calendar that knows its windows has others")
	}
}

func TestUnknownZone(t *testing.T) {
	for name, want := range map[string]string{
		"Europe/Berln":    "(did you mean Europe/Berlin?)",
		"berlin":          "(did you mean Europe/Berlin?)",
		"Buenos Aires":    "Buenos_Aires?)",
		"europe/berlin":   "(did you mean Europe/Berlin?)",
		"":                `"" is no time zone; write`,
		"Local":           `"Local" is no time zone; write`,
		"../etc/passwd":   "is no time zone; write",
		"posix/UTC\n":     `"posix/UTC\n" is no time zone`,
		"Middle/Earth":    "is no time zone",
		"Europe/Berlin\n": "is no time zone",
	} {
		w, err := calendar.Windows(limit.Calendar{Per: limit.PerDay, Zone: name})
		if w != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write its IANA name, such as Europe/Berlin, or UTC") {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}
