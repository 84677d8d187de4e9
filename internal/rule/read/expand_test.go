package read_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// same checks that a document means what another one states, in which it is expanded by hand.
func same(t *testing.T, doc, expanded string) {
	t.Helper()
	got := fatal.Get(read.JSON([]byte(doc)))(t)
	want := fatal.Get(read.JSON([]byte(expanded)))(t)
	if string(got.Encode()) != string(want.Encode()) || got.Content != want.Content {
		t.Errorf("%s\nis   %s\nwant %s", doc, got.Encode(), want.Encode())
	}
}

// Each window is a rule; they have all but the limits in common.
func TestWindows(t *testing.T) {
	same(t, `{"rules":[{"name":"login","mode":"shadow","match":{"path":"/login"},"key":["client_ip"],"limits":["5/1m",{"count":20,"per":"24h"},"9/90m"],"algorithm":"sliding_window","consistency":"exact","cost":2,
		"overrides":[{"name":"gold","when":{"path":"/gold"},"limits":["6/1m","60/1d","7/1h"]},{"key":["192.0.2.1"],"limits":["50/1m","200/1d","70/90m"]}]}]}`,
		`{"rules":[
		{"name":"login","mode":"shadow","match":{"path":"/login"},"key":["client_ip"],"limit":"5/1m","algorithm":"sliding_window","consistency":"exact","cost":2,
		"overrides":[{"name":"gold","when":{"path":"/gold"},"limit":"6/1m"},{"key":["192.0.2.1"],"limit":"50/1m"}]},
		{"name":"login@1d","mode":"shadow","match":{"path":"/login"},"key":["client_ip"],"limit":"20/1d","algorithm":"sliding_window","consistency":"exact","cost":2,
		"overrides":[{"name":"gold","when":{"path":"/gold"},"limit":"60/1d"},{"key":["192.0.2.1"],"limit":"200/1d"}]},
		{"name":"login@90m","mode":"shadow","match":{"path":"/login"},"key":["client_ip"],"limit":"9/90m","algorithm":"sliding_window","consistency":"exact","cost":2,
		"overrides":[{"name":"gold","when":{"path":"/gold"},"limit":"7/1h"},{"key":["192.0.2.1"],"limit":"70/90m"}]}]}`)
	const month = `{"rules":[{"name":"a","key":["client_ip"],"limit":{"count":5,"per":"month","anchor":15},"overrides":[{"when":{"method":"PUT"},"limit":%s}]}]}`
	same(t, fmt.Sprintf(month, `"7/month"`), fmt.Sprintf(month, `{"count":7,"per":"month","anchor":15}`))
}

// TestExpandedNames: the compiled form has names with suffixes, as long as tiers send them.
func TestExpandedNames(t *testing.T) {
	longest := strings.Repeat("n", rule.MaxName) + strings.Repeat("@"+strings.Repeat("s", rule.MaxSuffix), rule.MaxSuffixes)
	if w := (wire.Want{Rule: longest, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}); w.Check() != "" || len(longest) != wire.MaxRuleName {
		t.Errorf("a granter rejects a name of %d bytes: %q", len(longest), w.Check())
	}
	for name, want := range map[string]string{
		longest:       "",
		"login@1d":    "",
		"login@b@1d":  "",
		"@1d":         "is empty; write 1 to 64 letters, digits, - or _",
		"login@":      "is empty; write 1 to 32 letters, digits, - or _",
		"login@1.5d":  `"1.5d" has other characters; write 1 to 32 letters, digits, - or _`,
		"a@b@c@d":     `"a@b@c@d" has too many @`,
		longest + "s": `"` + strings.Repeat("s", rule.MaxSuffix+1) + `" has 33 bytes; write 1 to 32 letters, digits, - or _`,
	} {
		got := ""
		if _, err := read.JSON([]byte(`{"rules":[{"name":"` + name + `","key":[],"limit":"5/1m"}]}`)); err != nil {
			_, got, _ = strings.Cut(err.Error(), "rules[0].name: ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestTooMany: a document may have as many rules and overrides as the compiled form. Overrides are counted before they are
// there for each window of each variant, which would take gigabytes of a file of some megabytes.
func TestTooMany(t *testing.T) {
	windows := make([]string, 334)
	for i := range windows {
		windows[i] = fmt.Sprintf(`{"name":"n%d","key":[],"limits":["1/1m","2/1h","3/1d"]}`, i)
	}
	overrides := strings.Repeat(`{"key":["a"],"limit":"unlimited"},`, 5126) + `{"key":["b"],"limit":"unlimited"}`
	for want, rules := range map[string]string{
		"1:2: rules: has 1002 rules, counted once for each limit and variant; write at most 1000": strings.Join(windows, ","),
		"1:2: rules: has 164064 overrides, counted once for each limit and variant; write at most 100000": `{
			"name":"a","key":["client_ip"],"limits":["1/1s","1/2s","1/3s","1/4s"],"overrides":[` + overrides + `],
			"variants":[{"name":"a","weight":40},{"name":"b","weight":30},{"name":"c","weight":10},{"name":"d","weight":10},
				{"name":"e","weight":1},{"name":"f","weight":1},{"name":"g","weight":1},{"name":"h","weight":7}]}`,
	} {
		if _, err := read.JSON([]byte(`{"rules":[` + rules + `]}`)); err == nil || err.Error() != want {
			t.Errorf("error %.300v, want %s", err, want)
		}
	}
}

// TestPercent: the keys that are not enforced are decided in shadow. A rule that is off stays so.
func TestPercent(t *testing.T) {
	same(t, `{"seed":7,"rules":[{"name":"login","percent":20,"match":{"path":"/login"},"key":["client_ip"],"limits":["5/1m","20/1d"],"overrides":[{"key":["192.0.2.1"],"limits":["6/1m","60/1d"]}]},
		{"name":"off","mode":"off","percent":1,"key":["client_ip"],"limit":"5/1m"}]}`,
		`{"seed":7,"rules":[
		{"name":"login","match":{"path":"/login","percent":20},"key":["client_ip"],"limit":"5/1m","overrides":[{"key":["192.0.2.1"],"limit":"6/1m"}]},
		{"name":"login@1d","match":{"path":"/login","percent":20},"key":["client_ip"],"limit":"20/1d","overrides":[{"key":["192.0.2.1"],"limit":"60/1d"}]},
		{"name":"login@shadow","mode":"shadow","match":{"path":"/login","percent":{"from":20,"to":100}},"key":["client_ip"],"limit":"5/1m","overrides":[{"key":["192.0.2.1"],"limit":"6/1m"}]},
		{"name":"login@shadow@1d","mode":"shadow","match":{"path":"/login","percent":{"from":20,"to":100}},"key":["client_ip"],"limit":"20/1d","overrides":[{"key":["192.0.2.1"],"limit":"60/1d"}]},
		{"name":"off","mode":"off","match":{"percent":1},"key":["client_ip"],"limit":"5/1m"},
		{"name":"off@shadow","mode":"off","match":{"percent":{"from":1,"to":100}},"key":["client_ip"],"limit":"5/1m"}]}`)
}

// TestVariants: a variant is the rule but for what it states itself.
func TestVariants(t *testing.T) {
	same(t, `{"rules":[
		{"name":"a","key":["client_ip"],"limits":["5/1m","20/1d"],"algorithm":"sliding_window","overrides":[{"name":"gold","when":{"path":"/"},"limits":["6/1m","60/1d"]},{"key":["192.0.2.1"],"limits":["7/1m","70/1d"]}],
			"variants":[{"name":"x","weight":90},{"name":"y","weight":10,"algorithm":"fixed_window","consistency":"exact"}]},
		{"name":"b","mode":"shadow","key":["client_ip"],"limit":"5/1m","algorithm":"fixed_window",
			"variants":[{"name":"x","weight":50,"limit":"6/1m"},{"name":"y","weight":20,"limits":["7/1m","70/1d"]},{"name":"z","weight":30}]}]}`,
		`{"rules":[
		{"name":"a@x","match":{"percent":90},"key":["client_ip"],"limit":"5/1m","algorithm":"sliding_window","overrides":[{"name":"gold","when":{"path":"/"},"limit":"6/1m"},{"key":["192.0.2.1"],"limit":"7/1m"}]},
		{"name":"a@x@1d","match":{"percent":90},"key":["client_ip"],"limit":"20/1d","algorithm":"sliding_window","overrides":[{"name":"gold","when":{"path":"/"},"limit":"60/1d"},{"key":["192.0.2.1"],"limit":"70/1d"}]},
		{"name":"a@y","match":{"percent":{"from":90,"to":100}},"key":["client_ip"],"limit":"5/1m","algorithm":"fixed_window","consistency":"exact","overrides":[{"name":"gold","when":{"path":"/"},"limit":"6/1m"},{"key":["192.0.2.1"],"limit":"7/1m"}]},
		{"name":"a@y@1d","match":{"percent":{"from":90,"to":100}},"key":["client_ip"],"limit":"20/1d","algorithm":"fixed_window","consistency":"exact","overrides":[{"name":"gold","when":{"path":"/"},"limit":"60/1d"},{"key":["192.0.2.1"],"limit":"70/1d"}]},
		{"name":"b@x","mode":"shadow","match":{"percent":50},"key":["client_ip"],"limit":"6/1m","algorithm":"fixed_window"},
		{"name":"b@y","mode":"shadow","match":{"percent":{"from":50,"to":70}},"key":["client_ip"],"limit":"7/1m","algorithm":"fixed_window"},
		{"name":"b@y@1d","mode":"shadow","match":{"percent":{"from":50,"to":70}},"key":["client_ip"],"limit":"70/1d","algorithm":"fixed_window"},
		{"name":"b@z","mode":"shadow","match":{"percent":{"from":70,"to":100}},"key":["client_ip"],"limit":"5/1m","algorithm":"fixed_window"}]}`)
}

// TestCandidates: a candidate is its rule for all keys, in shadow, with another limit. Its overrides are those of the
// window that has its period.
func TestCandidates(t *testing.T) {
	same(t, `{"candidates":[{"rule":"a","limit":"3/1d","until":"2026-12-01T00:00:00Z"},{"rule":"b","limit":{"count":4,"per":"2m"}},{"rule":"c","limit":"5/1m"}],"rules":[
		{"name":"a","percent":20,"match":{"method":"GET","until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limits":["5/1m","20/1d"],"cost":2,"overrides":[{"key":["192.0.2.1"],"limits":["6/1m","60/1d"]}]},
		{"name":"b","key":["client_ip"],"limit":"5/1m","scope":"global","algorithm":"fixed_window","variants":[{"name":"x","weight":50},{"name":"y","weight":50,"algorithm":"token_bucket"}]},
		{"name":"c","mode":"off","key":[],"limit":"5/1m"}]}`,
		`{"rules":[
		{"name":"a","match":{"method":"GET","percent":20,"until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limit":"5/1m","cost":2,"overrides":[{"key":["192.0.2.1"],"limit":"6/1m"}]},
		{"name":"a@1d","match":{"method":"GET","percent":20,"until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limit":"20/1d","cost":2,"overrides":[{"key":["192.0.2.1"],"limit":"60/1d"}]},
		{"name":"a@shadow","mode":"shadow","match":{"method":"GET","percent":{"from":20,"to":100},"until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limit":"5/1m","cost":2,"overrides":[{"key":["192.0.2.1"],"limit":"6/1m"}]},
		{"name":"a@shadow@1d","mode":"shadow","match":{"method":"GET","percent":{"from":20,"to":100},"until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limit":"20/1d","cost":2,"overrides":[{"key":["192.0.2.1"],"limit":"60/1d"}]},
		{"name":"b@x","match":{"percent":50},"key":["client_ip"],"limit":"5/1m","scope":"global","algorithm":"fixed_window"},
		{"name":"b@y","match":{"percent":{"from":50,"to":100}},"key":["client_ip"],"limit":"5/1m","scope":"global","algorithm":"token_bucket"},
		{"name":"c","mode":"off","key":[],"limit":"5/1m"},
		{"name":"a@candidate","mode":"shadow","match":{"method":"GET","until":"2026-11-30T00:00:00Z"},"key":["client_ip"],"limit":"3/1d","cost":2,"overrides":[{"key":["192.0.2.1"],"limit":"60/1d"}]},
		{"name":"b@candidate","mode":"shadow","key":["client_ip"],"limit":"4/2m","scope":"global","algorithm":"fixed_window"},
		{"name":"c@candidate","mode":"off","key":[],"limit":"5/1m"}]}`)
}
