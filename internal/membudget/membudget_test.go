package membudget

import (
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
)

// One number bounds the process: a setting, or GOMEMLIMIT, and not both.
func TestLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, c := range map[string]struct {
		set   int64 // all in MiB
		env   string
		limit int64 // what the environment has made of the runtime's
		want  int64
		wrong string
	}{
		"setting":            {set: 256, want: 256},
		"environment":        {env: "300MiB", limit: 300, want: 300},
		"both":               {set: 256, env: "300MiB", limit: 300, wrong: "GOMEMLIMIT is set in the environment, too"},
		"little environment": {env: "20MiB", limit: 20, wrong: "20 MiB by GOMEMLIMIT is too little; write 64 MiB or more"},
		"no environment":     {set: 256, env: "off", want: 256},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.env)
			if c.limit > 0 {
				debug.SetMemoryLimit(c.limit << 20) // as at the start of a process
			}
			got, err := Limit(c.set<<20, slog.New(slog.DiscardHandler))
			switch {
			case c.wrong != "":
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
			case err != nil || got != c.want<<20 || debug.SetMemoryLimit(-1) != got:
				t.Errorf("%v, %d MiB, the runtime has %d", err, got>>20, debug.SetMemoryLimit(-1)>>20)
			}
		})
	}
}

// What callers make grow takes, with what the heap takes beside it, no more than half of what
// the program leaves: else the runtime would collect garbage without end.
func TestDivide(t *testing.T) {
	for most := Least; most <= 64<<30; most *= 2 {
		for tables := int64(1); tables <= 3; tables++ {
			r := Divide(most, int(tables))
			data := (tables*r.Table + int64(r.Callers)*callerBytes) * 7 / 6
			if most/8+own+2*data > most || r.Table < 1<<19 || r.Callers < 400 {
				t.Errorf("%d MiB: %d tables of %d bytes and %d callers take %d", most>>20, tables, r.Table, r.Callers, data)
			}
		}
	}
}
