package wire_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/wire"
)

func TestAnswerIsThatOfTheCall(t *testing.T) {
	whole := wire.Response{Protocol: wire.Protocol, Seq: 7, Grants: make([]wire.Grant, 2)}
	for name, c := range map[string]struct {
		change func(*wire.Response)
		want   string
	}{
		"whole":            {func(*wire.Response) {}, ""},
		"other version":    {func(m *wire.Response) { m.Protocol++ }, "version 2 of the quota protocol, supported is 1"},
		"a grant too few":  {func(m *wire.Response) { m.Grants = m.Grants[1:] }, "1 grants for 2 wants"},
		"of another call":  {func(m *wire.Response) { m.Seq++ }, "another call"},
		"without a number": {func(m *wire.Response) { m.Seq = 0 }, "another call"},
	} {
		sent, got := whole, wire.Response{}
		c.change(&sent)
		err := got.DecodeAnswer(sent.Append(nil), 7, 2)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := new(wire.Response).DecodeAnswer([]byte{0xff}, 7, 2); err == nil {
		t.Error("bytes that are no message are an answer")
	}
}
