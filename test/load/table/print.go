package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the sections as one Markdown table, its columns aligned. peer is a
// short name for what rows are compared with: by the minima, then by the medians. Beneath it stands
// where the machine moved.
func Print(w io.Writer, peer string, sections []Section) error {
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	columns := []string{"", "unit", "min", "median", "x " + peer, "over " + peer, "target", "", "note"}
	line := func(cells ...string) {
		cells = append(cells, make([]string, len(columns)-len(cells))...)
		fmt.Fprintf(out, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	line(columns...)
	line(strings.Split(strings.Repeat("-", len(columns)), "")...)
	for _, s := range sections {
		line("**" + s.Title + "**")
		for _, r := range s.Rows {
			line(r.cells(peer)...)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, s := range sections {
		if least, most := s.moved(); most > steadiness*least {
			fmt.Fprintf(w, "\nThe machine moved: %s cost from %s to %s, %.0f %% more, in rounds of %q.\n",
				peer, number(least), number(most), 100*(most/least-1), s.Title)
		}
	}
	return nil
}

func (r Row) cells(peer string) []string {
	least, median, times, over := "-", "-", "", ""
	if len(r.Value) > 0 {
		least, median = number(r.Value.Min()), number(r.Value.Median())
	}
	if len(r.Peer) > 0 {
		if r.Peer.Min() > 0 {
			times = fmt.Sprintf("%.2f / %.2f", r.Value.Min()/r.Peer.Min(), r.Value.Median()/r.Peer.Median())
		}
		over = fmt.Sprintf("%.1f / %.1f", r.Value.Min()-r.Peer.Min(), r.Value.Median()-r.Peer.Median())
	}
	return []string{r.Name, r.Unit, least, median, times, over, r.Target.text(r.Unit, peer), r.verdict(), r.Note}
}

// Missed is how many rows fall short of their target.
func Missed(sections []Section) (n int) {
	for _, s := range sections {
		for _, r := range s.Rows {
			if r.Short() > 0 {
				n++
			}
		}
	}
	return n
}
