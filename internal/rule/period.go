package rule

import (
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
)

// units of a period, largest first.
var units = [...]struct {
	name string
	unit limit.Micros
}{
	{"d", limit.Day}, {"h", limit.Hour}, {"m", limit.Minute}, {"s", limit.Second}, {"ms", limit.Millisecond},
}

// maxPeriod bounds what parsePeriod returns, so that sums do not overflow.
const maxPeriod = 100_000 * limit.Day

// parsePeriod reads a duration such as "1m", "90s", "1h30m" or "250ms": whole
// numbers with units, the largest unit first, each unit at most once.
func parsePeriod(s string) (limit.Micros, bool) {
	total, next := limit.Micros(0), 0
	for s != "" {
		digits := 0
		for digits < len(s) && isDigit(s[digits]) {
			digits++
		}
		letters := digits
		for letters < len(s) && !isDigit(s[letters]) {
			letters++
		}
		count, err := strconv.ParseInt(s[:digits], 10, 64)
		unit := next
		for unit < len(units) && units[unit].name != s[digits:letters] {
			unit++
		}
		if err != nil || unit == len(units) || count > int64(maxPeriod/units[unit].unit) {
			return 0, false
		}
		total += limit.Micros(count) * units[unit].unit
		next, s = unit+1, s[letters:]
	}
	return total, next > 0
}

// formatPeriod writes a duration of whole milliseconds in the largest unit that
// divides it.
func formatPeriod(d limit.Micros) string {
	for _, u := range units {
		if d%u.unit == 0 && d != 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return "0s"
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
