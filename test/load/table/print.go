package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// line is the cells of one line of the table.
type line [9]string

// heading names the columns. What compares with the peer is from the minima, then
// from the medians.
func heading(peer string) line {
	return line{"", "unit", "min", "median", "x " + peer, "over " + peer, "target", "", "note"}
}

// Print writes the sections as one Markdown table, its columns aligned. peer is a
// short name for what rows are compared with.
func Print(w io.Writer, peer string, sections []Section) error {
	lines := []line{heading(peer)}
	for _, s := range sections {
		lines = append(lines, line{"**" + s.Title + "**"})
		for _, r := range s.Rows {
			lines = append(lines, r.cells(peer))
		}
	}
	var width [len(line{})]int
	for _, cells := range lines {
		for i, cell := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for i, cells := range lines {
		writeLine(&out, cells[:], width[:])
		if i == 0 {
			for _, n := range width {
				out.WriteString("|" + strings.Repeat("-", n+2))
			}
			out.WriteString("|\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeLine(out *strings.Builder, cells []string, width []int) {
	for i, cell := range cells {
		fmt.Fprintf(out, "| %s%s ", cell, strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)))
	}
	out.WriteString("|\n")
}

func (r Row) cells(peer string) line {
	c := line{r.Name, r.Unit, number(r.Value.Min()), number(r.Value.Median())}
	if len(r.Value) == 0 {
		c[2], c[3] = "-", "-"
	}
	if len(r.Peer) > 0 {
		if r.Peer.Min() > 0 {
			c[4] = fmt.Sprintf("%.2f / %.2f", ratio(r.Value.Min(), r.Peer.Min()), ratio(r.Value.Median(), r.Peer.Median()))
		}
		c[5] = fmt.Sprintf("%.1f / %.1f", r.Value.Min()-r.Peer.Min(), r.Value.Median()-r.Peer.Median())
	}
	c[6] = r.Target.text(r.Unit, peer)
	c[7] = r.Judge().text(r.Target, r.Unit)
	c[8] = r.Note
	return c
}

// Missed is how many rows fall short of their target.
func Missed(sections []Section) int {
	n := 0
	for _, s := range sections {
		for _, r := range s.Rows {
			if !r.Judge().Reached() {
				n++
			}
		}
	}
	return n
}
