package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
)

// Report is what came of a log.
type Report struct {
	From      time.Time `json:"from"` // the first request
	Until     time.Time `json:"until"`
	Requests  int64     `json:"requests"`
	Admitted  int64     `json:"admitted"`
	Denied    int64     `json:"denied"`
	Uncounted int64     `json:"uncounted"` // not counted by a rule that had no room for their keys
	Late      int64     `json:"late"`      // decided at a later time than theirs: their lines were too far out of order
	Broken    Broken    `json:"broken"`
	Rules     []Rule    `json:"rules"`
	Top       []Key     `json:"top,omitempty"`   // of each rule the keys that are denied most
	Sheds     []string  `json:"sheds,omitempty"` // rules that are left out: they go by the load of a PoP, which no log has
	Rate      Rate      `json:"-"`
}

// Rule is what one rule did.
type Rule struct {
	Rule       string   `json:"rule"`
	Mode       string   `json:"mode"`
	Matched    int64    `json:"matched"`  // of an exempt rule: what it lifted others for
	Admitted   int64    `json:"admitted"` // by all rules: another one may deny some of Matched
	Denied     int64    `json:"denied"`   // by this rule; in shadow it would
	Keys       int64    `json:"keys"`
	KeysDenied int64    `json:"keys_denied"`
	NoKey      int64    `json:"no_key"`  // matched but for a part of the key
	Unknown    int64    `json:"unknown"` // their lines lack Missing
	Missing    []string `json:"missing,omitempty"`
	Note       string   `json:"note,omitempty"` // what the log lacks, and what to do
}

// topKeys is how many keys of each rule a report names.
const topKeys = 10

// Key is a key that is denied often.
type Key struct {
	Rule   string `json:"rule"`
	Key    string `json:"key"`
	Denied int64  `json:"denied"`   // at most
	Least  int64  `json:"at_least"` // denied at least
}

func add(n *int64, one bool) {
	if one {
		*n++
	}
}

// finish completes the report.
func (p *player) finish(r *reader) {
	p.report.Broken, p.report.Late = r.broken, r.late
	for i := range p.report.Rules {
		of, looked := &p.report.Rules[i], &r.rules[i]
		of.Note = looked.note()
		of.Unknown, of.Missing, of.NoKey, of.Matched = looked.unknown, looked.missing, looked.noKey, of.Matched+looked.exempted
	}
	for k, denied := range p.seen.of {
		of := &p.report.Rules[k.rule]
		of.Keys += p.seen.weight()
		if denied {
			of.KeysDenied += p.seen.weight()
		}
	}
	p.report.Sheds = Sheds(p.set)
	p.report.Rules = slices.DeleteFunc(p.report.Rules, func(r Rule) bool { return slices.Contains(p.report.Sheds, r.Rule) })
	for i, s := range p.top {
		of := p.set.Rule(i)
		if s == nil || of.Hash || of.HideKeys { // nobody is to see its keys
			continue
		}
		var all []Key
		for _, k := range s.Top(nil) {
			all = append(all, Key{of.Name, string(k.Text), int64(k.Count / topkeys.One), int64((k.Count - k.Over) / topkeys.One)})
		}
		slices.SortFunc(all, func(a, b Key) int { return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key)) })
		p.report.Top = append(p.report.Top, all[:min(topKeys, len(all))]...)
	}
}

// Sheds are the names of the rules that shed load.
func Sheds(set *rule.Set) (names []string) {
	for i := range set.Len() {
		if r := set.Rule(i); r.Shed != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

// Rate is requests over time, in steps: a second, or a power of two of them.
type Rate struct {
	Start, Step limit.Micros
	Steps       [][2]int64 // admitted, denied
}

// add counts a request, which is not earlier than any before. When there are too many steps, two become one.
func (r *Rate) add(at limit.Micros, denied bool) {
	if r.Step == 0 {
		r.Step, r.Start = limit.Second, at-at%limit.Second
	}
	for (at-r.Start)/r.Step >= 512 {
		for i, n := range r.Steps {
			if i%2 == 0 {
				r.Steps[i/2] = n
			} else {
				r.Steps[i/2][0] += n[0]
				r.Steps[i/2][1] += n[1]
			}
		}
		r.Steps, r.Step = r.Steps[:(len(r.Steps)+1)/2], 2*r.Step
	}
	step := int((at - r.Start) / r.Step)
	for step >= len(r.Steps) {
		r.Steps = append(r.Steps, [2]int64{})
	}
	add(&r.Steps[step][0], !denied)
	add(&r.Steps[step][1], denied)
}
