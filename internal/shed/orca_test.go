package shed

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
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
	golden.Lines(t, "testdata/load.golden", func(text string) string { return fmt.Sprintln(Load(text, "")) })
	for _, c := range []struct {
		name         string
		text, binary string
		want         int64
	}{
		{"no header", "", "", -1},
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
