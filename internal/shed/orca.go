package shed

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// maxReport is the length, in bytes, beyond which a report is not read.
const maxReport = 4096

// Load is the load that a response states, per mille; -1: none. The texts are its headers endpoint-load-metrics and
// endpoint-load-metrics-bin, in the forms of ORCA that Envoy reads: "TEXT cpu_utilization=0.3", "JSON {…}", and "BIN …"
// or the other header with an xds.data.orca.v3.OrcaLoadReport in base64.
//
// It is application_utilization, and cpu_utilization where that is 0 or not stated. A value above 1 is 1; one that is
// negative or no number is not stated. Of several the largest counts: no report hides another one's load. Whatever
// cannot be read is passed over.
func Load(text, binary string) int64 {
	r := report{-1, -1}
	r.text(text)
	r.binary(binary)
	if r.application > 0 {
		return r.application
	}
	return max(r.cpu, r.application)
}

// report is what was found, per mille; -1: nothing.
type report struct{ application, cpu int64 }

// text reads the header that says its form.
func (r *report) text(s string) {
	if len(s) > maxReport || len(s) < 5 {
		return
	}
	switch form, rest := s[:5], s[5:]; form {
	case "TEXT ":
		r.pairs(rest)
	case "JSON ":
		r.json(rest)
	default:
		if form[:4] == "BIN " {
			r.binary(s[4:])
		}
	}
}

// set takes a value for a name, as it is in the report or in its JSON.
func (r *report) set(name string, value int64) {
	switch name {
	case "application_utilization", "applicationUtilization":
		r.application = max(r.application, value)
	case "cpu_utilization", "cpuUtilization":
		r.cpu = max(r.cpu, value)
	}
}

// pairs reads a list such as cpu_utilization=0.3, eps:7.
func (r *report) pairs(s string) {
	for s != "" {
		pair, rest, _ := strings.Cut(s, ",")
		if i := strings.IndexAny(pair, "=:"); i > 0 {
			r.set(strings.TrimSpace(pair[:i]), perMille(pair[i+1:]))
		}
		s = rest
	}
}

// json reads the members of an object, not those of objects in it: named metrics may have any name.
func (r *report) json(s string) {
	object, err := strict.ParseJSON([]byte(s))
	if err != nil {
		return
	}
	for _, f := range object.Fields {
		if f.Value.Kind == strict.Int || f.Value.Kind == strict.Number {
			r.set(f.Name, perMille(f.Value.Text))
		}
	}
}

// Fields of the report, with type 1 of the wire format: 64 bits.
const (
	cpuTag         = 1<<3 | 1
	applicationTag = 9<<3 | 1
)

// binary reads a report in base64, with padding or without, up to what is broken.
func (r *report) binary(s string) {
	if len(s) > maxReport {
		return
	}
	var buffer [maxReport]byte
	n, _ := base64.RawStdEncoding.Decode(buffer[:], []byte(strings.TrimRight(s, "=")))
	for b := buffer[:n]; len(b) > 0; {
		tag, size := binary.Uvarint(b)
		if size <= 0 {
			return
		}
		b = b[size:]
		var field uint64 // its length
		switch tag & 7 {
		case 0:
			_, size = binary.Uvarint(b)
			field = uint64(max(size, 0))
		case 1:
			field = 8
		case 2:
			length, size := binary.Uvarint(b)
			b, field = b[max(size, 0):], length
		case 5:
			field = 4
		}
		if field > uint64(len(b)) {
			return
		}
		switch tag {
		case applicationTag:
			r.application = max(r.application, rounded(math.Float64frombits(binary.LittleEndian.Uint64(b))))
		case cpuTag:
			r.cpu = max(r.cpu, rounded(math.Float64frombits(binary.LittleEndian.Uint64(b))))
		}
		b = b[field:]
	}
}

// rounded is a number per mille, at most 1000; -1: it is negative or not finite.
func rounded(f float64) int64 {
	switch {
	case !(f >= 0) || f > math.MaxFloat64:
		return -1
	case f >= 1:
		return 1000
	}
	return int64(f*1000 + 0.5)
}

// perMille reads a decimal number such as 0.3 or 1, per mille, at most 1000; -1: it is none, or negative. Encoders write
// an exponent where a number is tiny or huge: 0 or 1000.
func perMille(s string) int64 {
	s = strings.TrimSpace(s)
	value, unit := int64(0), int64(10_000) // one digit more, to round
	digits, point := false, false
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			digits = true
			if point {
				unit /= 10
				value += int64(c-'0') * unit
			} else {
				value = min(value*10+int64(c-'0')*unit, 10_000)
			}
		case c == '.' && !point:
			point = true
		case (c == 'e' || c == 'E') && digits && i+1 < len(s):
			if value == 0 || s[i+1] == '-' {
				return 0
			}
			return 1000
		default:
			return -1
		}
	}
	if !digits {
		return -1
	}
	return min((value+5)/10, 1000)
}
