package script_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
)

// specs are a limit of each algorithm, by algorithm.
var specs = []limit.Spec{
	{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Minute},
	{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute},
	{Algorithm: limit.SlidingWindow, Count: 100, Period: limit.Minute},
	{Algorithm: limit.SlidingLog, Count: 100, Period: limit.Minute},
	{Algorithm: limit.Concurrency, Count: 50},
}

// askOf is an ask for so many units, of a request where there are slots.
func askOf(spec limit.Spec, key string, units int64) engine.Ask {
	return engine.Ask{Policy: policy(spec, lease.Leased, 100), Key: []byte(key), Op: engine.Take, Holder: 7,
		Want: lease.Want{Need: units, Waiting: units, Want: units}}
}

func TestParseRejects(t *testing.T) {
	good := strings.Repeat("\x01", 2) + strings.Repeat("\x00", 44)
	for name, reply := range map[string]string{
		"empty": "", "short": good[1:], "long": good + "\x00", "other": "OK", "fits": "\x02" + good[1:], "out": "\x01\x03" + good[2:],
	} {
		for a := range specs {
			ask := askOf(specs[a], "k", 1)
			if g, fits, err := script.Parse(reply, &ask, script.Acquire); err == nil || fits || g != (lease.Grant{}) {
				t.Errorf("%s, %s: %+v, %v, %v; want an error", script.All()[a].Name, name, g, fits, err)
			} else if !strings.Contains(err.Error(), script.All()[a].Name) {
				t.Errorf("%s: %v does not name the script", name, err)
			}
		}
	}
	ask := askOf(specs[0], "k", 1)
	if g, _, err := script.Parse("\x02", &ask, script.Acquire); err != nil || g.Status != lease.Unavailable {
		t.Errorf("full: %+v, %v, want unavailable", g, err)
	}
}

// FuzzParse: whatever a server answers, nothing panics, and what is taken for a grant is within the ranges of one.
func FuzzParse(f *testing.F) {
	f.Add("\x02", uint8(0), uint8(0), uint8(0))
	f.Add(strings.Repeat("\x01", 46), uint8(1), uint8(1), uint8(1))
	f.Add(strings.Repeat("\x00", 46), uint8(4), uint8(0), uint8(2))
	f.Add("\x01\x01"+strings.Repeat("\xff", 44), uint8(4), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, reply string, algorithm, mode, op uint8) {
		ask := askOf(specs[int(algorithm)%len(specs)], "k", 3)
		ask.Op = engine.Op(op % 6)
		g, fits, err := script.Parse(reply, &ask, script.Mode(mode%4))
		if err != nil {
			if g != (lease.Grant{}) || fits {
				t.Fatalf("%v, and yet %+v, %v", err, g, fits)
			}
			return
		}
		if g.Status < lease.OK || g.Status > lease.Unavailable || g.Granted < 0 || g.Remaining < 0 ||
			min(g.StartsIn, g.TTL, g.RetryAfter, g.AskAfter, g.Reset) < 0 {
			t.Fatalf("%+v", g)
		}
	})
}

// FuzzAppendArgs: the argument of an ask has the length of its algorithm's, whatever the numbers are.
func FuzzAppendArgs(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3), int64(4), int64(5), uint64(6), uint8(0))
	f.Add(int64(-1), int64(1<<62), int64(-1<<63), int64(1<<63-1), int64(0), uint64(1<<64-1), uint8(4))
	sizes := make([]int, len(specs))
	for i := range sizes {
		ask := askOf(specs[i], "k", 1)
		sizes[i] = len(script.AppendArgs(nil, &ask, script.Acquire, 0))
	}
	f.Fuzz(func(t *testing.T, need, waiting, want, unused, now int64, seq uint64, algorithm uint8) {
		i := int(algorithm) % len(specs)
		ask := askOf(specs[i], "k", 0)
		ask.Want = lease.Want{Need: need, Waiting: waiting, Want: want, Unused: unused, Overdrawn: unused, Denied: want, Next: true}
		ask.Seq, ask.Want.Holding = seq, want
		if got := script.AppendArgs([]byte("x"), &ask, script.Fit, limit.Micros(now)); len(got) != sizes[i]+1 {
			t.Fatalf("%d bytes, want %d", len(got)-1, sizes[i])
		}
	})
}
