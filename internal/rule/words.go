package rule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// word is a value that has a word in the rule language.
type word interface {
	~uint8
	String() string
}

// Words returns the words for the values of a type, in the order of its constants.
func Words[T word]() (words []string) {
	for value := T(0); value.String() != unknown; value++ {
		words = append(words, value.String())
	}
	return words
}

// ParseWord returns the value that a word stands for; of any other word the default.
func ParseWord[T word](text string) T { return T(max(0, slices.Index(Words[T](), text))) }

// unknown is the word for what is no value of its type.
const unknown = "unknown"

var (
	modeWords  = [...]string{enforce: "enforce", Shadow: "shadow", Off: "off", Off + 1: unknown}
	scopeWords = [...]string{ScopeRegion: "region", ScopePoP: "pop", ScopeGlobal: "global", ScopeGlobal + 1: unknown}
	fairWords  = [...]string{FairDemand: "demand", FairEqual: "equal", FairEqual + 1: unknown}
	opWords    = [...]string{OpExact: "exact", OpPrefix: "prefix", OpRegex: "regex", OpPresent: "present", OpAbsent: "present",
		OpTemplate: "template", OpTemplate + 1: unknown}
	fromWords = [...]string{FromClientIP: "client_ip", FromHeader: "header", FromPath: "path", FromMethod: "method", FromQuery: "query",
		FromConst: "const", FromConst + 1: unknown}
)

// String returns the word of the rule language.
func (m Mode) String() string { return modeWords[min(m, Off+1)] }

// String returns the word of the rule language.
func (s Scope) String() string { return scopeWords[min(s, ScopeGlobal+1)] }

// String returns the word of the rule language.
func (f Fair) String() string { return fairWords[min(f, FairEqual+1)] }

// String returns the field of the rule language that has the text.
func (o Op) String() string { return opWords[min(o, OpTemplate+1)] }

// String returns the word of the rule language.
func (f From) String() string { return fromWords[min(f, FromConst+1)] }

// HeaderWords are the words for the bits of [Headers] that a list may have, from the lowest.
var HeaderWords = [...]string{"draft", "x-draft03", "x-unix"}

// ConditionFields are those names of a condition's fields that are not the same everywhere.
type ConditionFields struct{ Methods, Hosts, Headers string }

// A condition stands under match, where it mostly has several of each, or under when.
var (
	MatchFields = ConditionFields{Methods: "methods", Hosts: "hosts", Headers: "headers"}
	WhenFields  = ConditionFields{Methods: "method", Hosts: "host", Headers: "header"}
)

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
