package regions

import (
	"cmp"
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
	Script, Figure, Promise, Measured string
	Outcome                           Outcome
	Aim                               bool // it never fails
}

// Outcome is how a measured figure compares with what was expected of it.
type Outcome string

// The outcomes.
const (
	Holds Outcome = "ok"
	Short Outcome = "short" // of what is promised, but within what a busy machine may do
	Fails Outcome = "FAILS"
)

// Judge compares all figures with what is expected.
func (p *Played) Judge() (rows []Row) {
	for _, e := range p.Script.Expect {
		v := e.Figure.of(p, e.Figure)
		row := Row{p.Script.Name, e.Text, e.Promise.Text, e.Figure.Text(v), Fails, e.Accepted == anything}
		switch {
		case e.Promise.Holds(v):
			row.Outcome = Holds
		case e.Accepted.Holds(v):
			row.Outcome = Short
		}
		rows = append(rows, row)
	}
	return rows
}

// Lacking are the promises that held in none of the plays of a script, as the last one has them. An aim
// is no promise. Each play has the same rows.
func Lacking(plays [][]Row) (lacking []Row) {
	if len(plays) == 0 {
		return nil
	}
	for i, r := range plays[len(plays)-1] {
		held := func(rows []Row) bool { return rows[i].Outcome == Holds }
		if !r.Aim && !slices.ContainsFunc(plays, held) {
			lacking = append(lacking, r)
		}
	}
	return lacking
}

// Void reports whether the machine let a client stand still so long that the play shows nothing of
// Weir. A server that hangs does not: a client waits for it in turns of some milliseconds.
func (p *Played) Void() bool {
	return slices.ContainsFunc(p.results, func(r *drive.Result) bool { return r.Stalled >= time.Second })
}

// Seconds is what each load had answered with 200 in each second, and of how many requests,
// and when requests waited.
func (p *Played) Seconds() string {
	var b strings.Builder
	for i, l := range p.Script.Loads {
		fmt.Fprintf(&b, "%s of %s, from %s:", l.Region, cmp.Or(l.Rule, "no rule"), l.From)
		for at := l.From; at < l.To; at += time.Second {
			second := p.results[i].Seconds[p.begin.Add(at).Unix()]
			fmt.Fprintf(&b, " %d/%d", second.OK, second.Sent)
		}
		fmt.Fprintf(&b, "; %v, %d failed: %v\n", p.results[i].Status, p.results[i].Failed, p.results[i].FirstError)
	}
	b.WriteString("waited for the region:")
	for i, m := range p.watched {
		if i > 0 && m.Waits > p.watched[i-1].Waits {
			fmt.Fprintf(&b, " %.0f before %.1fs", m.Waits-p.watched[i-1].Waits, m.At.Seconds())
		}
	}
	return b.String()
}

// Print writes rows as a table.
func Print(out io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "script\tfigure\texpected\tmeasured\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Script, r.Figure, r.Promise, r.Measured, r.Outcome)
	}
	return t.Flush()
}
