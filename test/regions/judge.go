package regions

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
)

// Row is an expectation and what was measured.
type Row struct {
	Script, Figure, Bound, Measured, Kind string
	Outcome                               Outcome
}

// Outcome is how a measured figure compares with what was expected of it.
type Outcome string

// The outcomes.
const (
	Holds Outcome = "ok"
	Fails Outcome = "FAILS" // what has to hold in every play
	Short Outcome = "short" // of latency or fairness: the play does not count
)

// Judge compares all figures with what is expected.
func (p *Played) Judge() (rows []Row) {
	judge := func(kind string, all []Expectation, otherwise Outcome) {
		for _, e := range all {
			v := e.of(p, e.Figure)
			row := Row{p.Script.Name, e.String(), e.Bound.text(e.Unit), e.Unit.Text(v), kind, Holds}
			if !e.Holds(v) {
				row.Outcome = otherwise
			}
			rows = append(rows, row)
		}
	}
	judge("always", p.Script.Always, Fails)
	judge("expect", p.Script.Expect, Short)
	return rows
}

// Void reports whether the machine let a client stand still so long that the play shows nothing of
// Weir. A server that hangs does not: a client waits for it in turns of some milliseconds.
func (p *Played) Void() bool {
	return slices.ContainsFunc(p.results, func(r *drive.Result) bool { return r.Stalled >= time.Second })
}

// Seconds is what each load had answered with 200 in each second, and of how many requests.
func (p *Played) Seconds() string {
	var b strings.Builder
	for i, l := range p.Script.Loads {
		fmt.Fprintf(&b, "%s of %s, from %s:", l.Region, l.Rule, l.From)
		for at := l.From; at < l.To; at += time.Second {
			second := p.results[i].Seconds[p.begin.Add(at).Unix()]
			fmt.Fprintf(&b, " %d/%d", second.OK, second.Sent)
		}
		fmt.Fprintf(&b, "; %v, %d failed: %v\n", p.results[i].Status, p.results[i].Failed, p.results[i].FirstError)
	}
	return b.String()
}

// Print writes rows as a table.
func Print(out io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "script\tkind\tfigure\tbound\tmeasured\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Script, r.Kind, r.Figure, r.Bound, r.Measured, r.Outcome)
	}
	return t.Flush()
}
