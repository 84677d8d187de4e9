package settle

import (
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// Actual is where the response to a request states what the request has cost. What the request took is a reservation until
// then: if it was too much, the rest is available again, and if it was too little, the rest is charged. The zero value is none:
// the cost is known with the request.
type Actual struct {
	From From
	// Name is that of a header or trailer, in lower case; of metadata NAMESPACE:KEY; of a body the names that lead to a number
	// in JSON, with dots between them. Empty: there is none.
	Name string
	// Max is the most that a response may state; more counts as Max. From the most that a request reserves to limit.MaxCount.
	Max int64
	// MaxStream is how long a stream may last to get anything back; 1 s to MostStream; 0: DefaultMaxStream.
	MaxStream limit.Micros
}

// The default and the largest MaxStream.
const (
	DefaultMaxStream = 10 * limit.Minute
	MostStream       = limit.Hour
)

// From is where a response has a cost. The zero value is FromHeader.
type From uint8

// Where a response has a cost, in the order of [Words].
const (
	FromHeader From = iota
	FromTrailer
	FromMetadata // what Envoy's filters have set until the end of the stream
	FromBody     // JSON, or the last event of an event stream that has the number
)

// Words are the words for From.
var Words = [...]string{FromHeader: "header", FromTrailer: "trailer", FromMetadata: "metadata", FromBody: "body"}

// String returns the word of the rule language.
func (f From) String() string { return Words[f] }

// Native reports whether only the native module sees it.
func (f From) Native() bool { return f == FromTrailer || f == FromBody }

// Stated reports whether responses state a cost.
func (a *Actual) Stated() bool { return a.Name != "" }

// Units reads what a response states: the largest of a list of whole numbers, of which 0 is one, at most Max. False if one of
// them is no whole number, or there is none.
func (a *Actual) Units(list string) (units int64, ok bool) {
	for list != "" {
		var value string
		value, list, _ = strings.Cut(list, ",")
		if value = strings.Trim(value, " \t"); value == "" {
			continue
		}
		n, whole := Whole(value, a.Max)
		if !whole {
			return 0, false
		}
		units, ok = max(units, n), true
	}
	return units, ok
}

// Whole reads a whole number, without a sign; what is more than most is most.
func Whole(text string, most int64) (n int64, ok bool) {
	for _, d := range []byte(text) {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = min(n*10+int64(d-'0'), most)
	}
	return n, text != ""
}
