package faults

import (
	"fmt"
	"testing"
)

// end stops the load and judges all of it; see judge.
func (l *load) end(t *testing.T, twice, spared func(*counter) bool) {
	t.Helper()
	l.stop()
	for _, fault := range judge(l.lives, l.unanswered(), twice, spared) {
		t.Error(fault)
	}
}

func none(*counter) bool { return false }

// judge returns what is wrong. In each life a counter grants at most its limit: twice that where a
// master was lost whose replica lacked what was granted last. A counter that denies is spent: its limit
// was granted, or charged to asks that were sent and never answered. The two together leave no room.
// What the fault spares is decided every single time. unanswered is that of the end.
func judge(lives []*life, unanswered uint64, twice, spared func(*counter) bool) (faults []string) {
	for i, l := range lives {
		until, missing := unanswered, int64(0)
		if i+1 < len(lives) {
			until = lives[i+1].unanswered
		}
		fault := func(c *counter, what string) {
			faults = append(faults, fmt.Sprintf("%v in life %d: %s: %+v of %d", c, i, what, *l.tallies[c], c.limit()))
		}
		for c, sum := range l.tallies {
			most := c.limit() + 1 // a unit of a day's may come back while the test runs
			if c.policy.Rule == "fixed" || c.policy.Rule == "log" {
				most = c.limit()
			}
			if twice(c) {
				most *= 2
			}
			if sum.granted > most {
				fault(c, "too much was granted")
			}
			if lacks := c.limit() - sum.granted; sum.denied > 0 && lacks > 0 {
				missing += lacks
				if lacks > sum.unavailable {
					fault(c, "denied too early")
				}
			}
			if spared(c) && sum.unavailable > 0 {
				fault(c, "unavailable though its node was well")
			}
		}
		if missing > int64(until-l.unanswered) {
			faults = append(faults, fmt.Sprintf("life %d: %d units are neither granted nor left, and %d asks have no answer", i, missing, until-l.unanswered))
		}
	}
	return faults
}

// TestReferee plants what faults could do to a counter, each of which has to be found.
func TestReferee(t *testing.T) {
	log := counters("referee", 1, 1)[3]
	L := log.limit()
	for _, row := range []struct {
		name          string
		first, second tally
		unanswered    uint64 // in the second life
		twice, spared bool
		wrong         bool
	}{
		{"spent, then denied, and once more after a loss", tally{L, 9, 0}, tally{L, 9, 0}, 0, false, true, false},
		{"one too many", tally{L + 1, 0, 0}, tally{}, 0, false, false, true},
		{"one too few", tally{L - 1, 1, 0}, tally{}, 0, false, false, true},
		{"does not begin anew", tally{L, 9, 0}, tally{0, 9, 0}, 0, false, false, true},
		{"begins anew with one too many", tally{L, 9, 0}, tally{L + 1, 0, 0}, 0, false, false, true},
		{"one may have been charged", tally{}, tally{L - 1, 9, 1}, 1, false, false, false},
		{"one was not even sent", tally{}, tally{L - 1, 9, 1}, 0, false, false, true},
		{"another's may have been charged", tally{}, tally{L - 1, 9, 0}, 1, false, false, true},
		{"granted again by a replica that was behind", tally{2 * L, 9, 0}, tally{}, 0, true, false, false},
		{"granted more than that", tally{2*L + 1, 9, 0}, tally{}, 0, true, false, true},
		{"unavailable though it was well", tally{L, 9, 1}, tally{}, 0, false, true, true},
	} {
		is := func(b bool) func(*counter) bool { return func(*counter) bool { return b } }
		lives := []*life{{map[*counter]*tally{log: &row.first}, 0}, {map[*counter]*tally{log: &row.second}, 0}}
		if found := judge(lives, row.unanswered, is(row.twice), is(row.spared)); len(found) > 0 != row.wrong {
			t.Errorf("%s: found %q", row.name, found)
		}
	}
}
