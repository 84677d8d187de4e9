package rule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// Word is a value that has a word in the rule language.
type Word interface {
	~uint8
	String() string
}

// Words returns the words for the values of a type, in the order of its constants.
func Words[T Word]() (words []string) {
	for value := T(0); value.String() != unknown; value++ {
		words = append(words, value.String())
	}
	return words
}

// ParseWord returns the value that a word stands for; of any other word the default.
func ParseWord[T Word](text string) T { return T(max(0, slices.Index(Words[T](), text))) }

// unknown is the word for what is no value of its type.
const unknown = "unknown"

var (
	modeWords    = [...]string{enforce: "enforce", Shadow: "shadow", Off: "off", Exempt: "exempt", Exempt + 1: unknown}
	scopeWords   = [...]string{ScopeRegion: "region", ScopePoP: "pop", ScopeGlobal: "global", ScopeGlobal + 1: unknown}
	sharingWords = [...]string{SharingProportional: "proportional", SharingEqual: "equal", SharingEqual + 1: unknown}
	opWords      = [...]string{OpExact: "exact", OpPrefix: "prefix", OpRegex: "regex", OpPresent: "present", OpAbsent: "present",
		OpTemplate: "template", OpTemplate + 1: unknown}
	fromWords = [...]string{FromClientIP: "client_ip", FromHeader: "header", FromPath: "path", FromMethod: "method", FromQuery: "query",
		FromConst: "const", FromCookie: "cookie", FromSegment: "segment", FromHost: "host", FromClaim: "claim", FromSAN: "san",
		FromRoute: "route", FromRegion: "region", FromLabel: "label", FromMetadata: "metadata", FromMetadata + 1: unknown}
)

// String returns the word of the rule language.
func (m Mode) String() string { return modeWords[min(m, Exempt+1)] }

// String returns the word of the rule language.
func (s Scope) String() string { return scopeWords[min(s, ScopeGlobal+1)] }

// String returns the word of the rule language.
func (s Sharing) String() string { return sharingWords[min(s, SharingEqual+1)] }

// String returns the field of the rule language that has the text.
func (o Op) String() string { return opWords[min(o, OpTemplate+1)] }

// String returns the word of the rule language.
func (f From) String() string { return fromWords[min(f, FromMetadata+1)] }

// HeaderWords are the words for the bits of [Headers] that a list may have, from the lowest.
var HeaderWords = [...]string{"draft", "x-draft03", "x-unix"}

// Named reports whether a source of this kind has a name: { header: x-user-id }.
func (f From) Named() bool {
	switch f {
	case FromHeader, FromQuery, FromConst, FromCookie, FromSegment, FromClaim, FromLabel, FromMetadata:
		return true
	}
	return false
}

// IsNameRune reports whether a name can have r: a letter of ASCII, a digit, - or _.
func IsNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

// Written is the name in the document of a rule that was expanded: what has several
// counters there becomes several rules, whose names have a suffix for each step, such as
// login@shadow@1d.
func Written(name string) string {
	written, _, _ := strings.Cut(name, "@")
	return written
}

// Unlimited is the word for the limit of an override without one.
const Unlimited = "unlimited"

// Weekdays are the words for the days of a week, from the day 1 on.
var Weekdays = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// units of a period, largest first.
var units = [...]struct {
	name string
	unit limit.Micros
}{
	{"d", limit.Day}, {"h", limit.Hour}, {"m", limit.Minute}, {"s", limit.Second}, {"ms", limit.Millisecond},
}

// maxPeriod bounds what ParsePeriod returns, so that sums do not overflow.
const maxPeriod = 100_000 * limit.Day

// ParsePeriod reads a duration such as "1m", "90s", "1h30m" or "250ms": whole
// numbers with units, the largest unit first, each unit at most once.
func ParsePeriod(s string) (limit.Micros, bool) {
	const digits = "0123456789"
	total, next := limit.Micros(0), 0
	for s != "" {
		letters := strings.TrimLeft(s, digits)
		number := s[:len(s)-len(letters)]
		end := strings.IndexAny(letters, digits)
		if end < 0 {
			end = len(letters)
		}
		count, err := strconv.ParseInt(number, 10, 64)
		unit := next
		for unit < len(units) && units[unit].name != letters[:end] {
			unit++
		}
		if err != nil || unit == len(units) || count > int64(maxPeriod/units[unit].unit) {
			return 0, false
		}
		total += limit.Micros(count) * units[unit].unit
		next, s = unit+1, letters[end:]
	}
	return total, next > 0
}

// FormatPeriod writes a duration of whole milliseconds in the largest unit that
// divides it.
func FormatPeriod(d limit.Micros) string {
	for _, u := range units {
		if d%u.unit == 0 && d != 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return "0s"
}

// ParseTime reads a time of RFC 3339 in UTC and whole seconds from 1970 to 9999, such as
// 2026-12-01T00:00:00Z, in µs since 1970.
func ParseTime(s string) (limit.Micros, bool) {
	var n [6]int64 // year to second
	at := 0
	for i := range len(s) {
		if c := s[i]; '0' <= c && c <= '9' {
			n[at] = n[at]*10 + int64(c-'0')
		} else if at++; at == len(n) {
			break
		}
	}
	t := limit.Micros((daysSince1970(n[0], n[1], n[2])*24+n[3])*3600+n[4]*60+n[5]) * limit.Second
	return t, len(s) == len("0000-00-00T00:00:00Z") && t >= 0 && FormatTime(t) == s
}

// FormatTime writes a time as [ParseTime] reads it, in UTC.
func FormatTime(t limit.Micros) string {
	seconds := int64(t / limit.Second)
	year, month, day := dateOf(seconds / 86400)
	out := []byte("0000-00-00T00:00:00Z")
	at := [...]int{0, 2, 5, 8, 11, 14, 17}
	for i, n := range [...]int64{year / 100, year % 100, month, day, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60} {
		out[at[i]] += byte(n / 10)
		out[at[i]+1] += byte(n % 10)
	}
	return string(out)
}

// The calendar below counts years from March, so that the leap day is the last, and in periods of
// 400 years, of which each has 146,097 days.

// daysSince1970 returns how many days a date is after 1970-01-01.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return year*365 + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}

// dateOf is the date that is so many days after 1970-01-01.
func dateOf(days int64) (year, month, day int64) {
	days += 719468
	period, of := days/146097, days%146097
	y := (of - of/1460 + of/36524 - of/146096) / 365
	of -= 365*y + y/4 - y/100
	m := (5*of + 2) / 153
	year, month, day = period*400+y, m+3, of-(153*m+2)/5+1
	if month > 12 {
		year++
		month -= 12
	}
	return year, month, day
}
