package descriptor

import (
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// Unit is the time in which a limit admits its requests. Its number is that of
// RateLimitResponse.RateLimit.Unit and of RateLimitUnit in Envoy's API. The zero
// value is no unit.
type Unit uint8

// The units. A month has 30 days and a year 365, as in envoyproxy/ratelimit; all
// begin at multiples of their length since 1970 (UTC), so a week on Thursday.
const (
	Second Unit = 1
	Minute Unit = 2
	Hour   Unit = 3
	Day    Unit = 4
	Month  Unit = 5
	Year   Unit = 6
	Week   Unit = 7
)

var units = [...]struct {
	name   string
	period limit.Micros
}{
	{"unknown", 0},
	Second: {"second", limit.Second},
	Minute: {"minute", limit.Minute},
	Hour:   {"hour", limit.Hour},
	Day:    {"day", limit.Day},
	Month:  {"month", 30 * limit.Day},
	Year:   {"year", 365 * limit.Day},
	Week:   {"week", 7 * limit.Day},
}

// unitNames is the list of units for messages, shortest first.
const unitNames = "second, minute, hour, day, week, month or year"

// parseUnit finds a unit by its name in any case.
func parseUnit(name string) (Unit, bool) {
	for u := Second; u <= Week; u++ {
		if strings.EqualFold(name, units[u].name) {
			return u, true
		}
	}
	return 0, false
}

// UnitOf finds a unit by its number in Envoy's API; false for unknown (0) and for
// what is none.
func UnitOf(number int32) (Unit, bool) {
	if number < int32(Second) || number > int32(Week) {
		return 0, false
	}
	return Unit(number), true
}

// String is the name as it is written in the file, in lower case.
func (u Unit) String() string { return units[u].name }

// Period is the unit's length; 0 for no unit.
func (u Unit) Period() limit.Micros { return units[u].period }
