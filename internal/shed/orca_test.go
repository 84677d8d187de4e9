package shed

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// message writes a report as protobuf does: fields with their numbers.
func message(fields ...float64) (b []byte) {
	for i := 0; i < len(fields); i += 2 {
		b = append(b, byte(fields[i])<<3|1)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fields[i+1]))
	}
	return b
}

var b64 = base64.StdEncoding.EncodeToString

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		name         string
		text, binary string
		want         int64
	}{
		{"no header", "", "", -1},
		{"text", "TEXT cpu_utilization=0.3,application_utilization=0.8,mem_utilization=0.9,eps=7", "", 800},
		{"text with colons and blanks", "TEXT cpu_utilization: 0.3 , application_utilization : 0.8", "", 800},
		{"named metrics are others", "TEXT named_metrics.cpu_utilization=1,utilization.cpu_utilization=1", "", -1},
		{"cpu alone", "TEXT cpu_utilization=0.3", "", 300},
		{"application is 0", "TEXT application_utilization=0,cpu_utilization=0.3", "", 300},
		{"application is 0, cpu not stated", "TEXT application_utilization=0", "", 0},
		{"a name twice", "TEXT cpu_utilization=0.7,cpu_utilization=0.2", "", 700},
		{"above 1", "TEXT cpu_utilization=1.7", "", 1000},
		{"out of range", "TEXT cpu_utilization=1e999999999", "", 1000},
		{"negative beside good", "TEXT application_utilization=-1,cpu_utilization=0.4", "", 400},
		{"NaN", "TEXT cpu_utilization=NaN", "", -1},
		{"not a number", "TEXT cpu_utilization=0x1p-2,application_utilization=\"0.7\"", "", -1},
		{"exponent below 0", "TEXT cpu_utilization=2.5e-05", "", 0},
		{"exponent of 0", "TEXT cpu_utilization=0.000e+00", "", 0},
		{"broken exponent", "TEXT cpu_utilization=2.5e", "", -1},
		{"many digits", "TEXT cpu_utilization=0.33333333333333333333333333333333333", "", 333},
		{"many zeros", "TEXT cpu_utilization=0.000000000000000000000000000000000001", "", 0},
		{"many digits before the point", "TEXT cpu_utilization=100000000000000000000000000000000.5", "", 1000},
		{"rounded", "TEXT cpu_utilization=0.7996", "", 800},
		{"without a form, as Envoy: not read", "cpu_utilization=0.3", "", -1},
		{"no list", "TEXT , =1,,:,cpu_utilization", "", -1},

		{"json", `JSON {"cpu_utilization": 0.3, "application_utilization": 0.8}`, "", 800},
		{"json in camel case", `JSON {"cpuUtilization":0.3,"memUtilization":1}`, "", 300},
		{"json with exponent", `JSON {"cpu_utilization":3E1}`, "", 1000},
		{"json: names in objects are others", `JSON {"named_metrics":{"cpu_utilization":1},"utilization":{"x":{"cpuUtilization":1}},"cpu_utilization":0.2}`, "", 200},
		{"json: text, null, list", `JSON {"cpu_utilization":"0.7","application_utilization":null,"x":[1]}`, "", -1},

		{"binary", "", b64(message(1, 0.3, 9, 0.8)), 800},
		{"binary, cpu alone, other fields", "", b64(append([]byte{3 << 3, 0xff, 1, 8<<3 | 2, 2, 9<<3 | 1, 0, 15<<3 | 5, 1, 2, 3, 4}, message(2, 1, 1, 0.57, 7, 3)...)), 570},
		{"binary without padding, of gRPC for Go", "", "CQAAAAAAAOA/MQAAAAAAAFlAOQAAAAAAAABAQg4KA3JpZhEAAAAAAAAQQA", 500},
		{"binary in the other header", "BIN " + b64(message(1, 0.3)), "", 300},
		{"binary: negative, NaN, infinite", "", b64(message(1, -0.3, 9, math.NaN(), 9, math.Inf(1), 1, math.Inf(-1))), -1},
		{"binary: a field twice", "", b64(message(1, 0.3, 1, 0.2)), 300},
		{"binary: cut off", "", b64(message(1, 0.3)[:6]), -1},
		{"binary: cut off after a good field", "", b64(append(message(1, 0.3), 9<<3|1, 0)), 300},
		{"binary: a length beyond the end", "", b64([]byte{8<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}), -1},
		{"binary: not base64", "", "!!!!", -1},

		{"both headers: the larger one", "TEXT cpu_utilization=0.3", b64(message(1, 0.6)), 600},
		{"both headers: the larger one, of text", "TEXT cpu_utilization=0.7", b64(message(1, 0.6)), 700},
		{"4 KiB", "TEXT cpu_utilization=0.3," + strings.Repeat("x", 4096-25), "", 300},
		{"more", "TEXT cpu_utilization=0.3," + strings.Repeat("x", 4097-25), "", -1},
		{"10 MB", "TEXT " + strings.Repeat("cpu_utilization=1,", 600_000), strings.Repeat("A", 10<<20), -1},
	} {
		if got := Load(c.text, c.binary); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("TEXT cpu_utilization=0.3,application_utilization:0.8", b64(message(1, 0.3)))
	f.Add(`JSON {"cpuUtilization":0.3,"named_metrics":{"a\"":[1]}}`, b64(message(9, math.NaN())))
	f.Add("BIN "+b64(message(1, 0.3, 9, 2)), "CQAAAAAAAOA/Qg4KA3JpZhEAAAAAAAAQQA")
	f.Fuzz(func(t *testing.T, text, binary string) {
		if n := Load(text, binary); n < -1 || n > 1000 {
			t.Errorf("load %d", n)
		}
	})
}
