package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The columns. What compares with bare is from the minima, then from the medians.
var columns = [...]string{"", "unit", "min", "median", "x bare", "over bare", "target", "", "note"}

// Print writes the sections as one Markdown table, its columns aligned.
func Print(w io.Writer, sections []Section) error {
	lines := [][len(columns)]string{columns}
	for _, s := range sections {
		lines = append(lines, [len(columns)]string{"**" + s.Title + "**"})
		for _, r := range s.Rows {
			lines = append(lines, r.cells())
		}
	}
	var width [len(columns)]int
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

func (r Row) cells() [len(columns)]string {
	c := [len(columns)]string{r.Name, r.Unit, number(r.Value.Min()), number(r.Value.Median())}
	if len(r.Value) == 0 {
		c[2], c[3] = "-", "-"
	}
	if len(r.Bare) > 0 {
		if r.Bare.Min() > 0 {
			c[4] = fmt.Sprintf("%.2f / %.2f", ratio(r.Value.Min(), r.Bare.Min()), ratio(r.Value.Median(), r.Bare.Median()))
		}
		c[5] = fmt.Sprintf("%.1f / %.1f", r.Value.Min()-r.Bare.Min(), r.Value.Median()-r.Bare.Median())
	}
	c[6] = r.Target.text(r.Unit)
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

// record is a row as a program reads it.
type record struct {
	Section string    `json:"section"`
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Rounds  []float64 `json:"rounds"`
	Bare    []float64 `json:"bare_rounds,omitempty"`
	Min     float64   `json:"min"`
	Median  float64   `json:"median"`
	Target  string    `json:"target,omitempty"`
	Verdict string    `json:"verdict,omitempty"`
	Reached *bool     `json:"reached,omitempty"` // only with a target
	Note    string    `json:"note,omitempty"`
}

// WriteJSON writes every row with the rounds behind it, as one JSON array.
func WriteJSON(w io.Writer, sections []Section) error {
	records := []record{}
	for _, s := range sections {
		for _, r := range s.Rows {
			records = append(records, r.record(s.Title))
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(records)
}

func (r Row) record(section string) record {
	v := r.Judge()
	rec := record{
		Section: section, Name: r.Name, Unit: r.Unit,
		Rounds: append([]float64{}, r.Value...), Bare: r.Bare,
		Min: r.Value.Min(), Median: r.Value.Median(),
		Target: r.Target.text(r.Unit), Verdict: v.text(r.Target, r.Unit), Note: r.Note,
	}
	if r.Target.Kind != None {
		reached := v.Reached()
		rec.Reached = &reached
	}
	return rec
}
