package convert

import (
	"fmt"
	"io"
)

// WriteList writes what the conversion leaves out or changes, for people.
func (r *Result) WriteList(w io.Writer) {
	if left := r.Left(); left > 0 {
		fmt.Fprintf(w, "\nLeft out, rate limits: %d. Without a binding their descriptors are decided by\n"+
			"--ratelimit-config, if weir-regional has it beside --rules and --ratelimit-bindings,\n"+
			"exactly as before; without it, they are allowed and not counted.\n", left)
		r.writeRemarks(w, true)
	}
	if r.Left() < len(r.Remarks) {
		fmt.Fprint(w, "\nDifferent:\n")
		r.writeRemarks(w, false)
	}
	if len(r.Notes) > 0 {
		fmt.Fprint(w, "\nOf all rules:\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "  - %s\n", note)
	}
}

// writeRemarks writes the remarks on what is left out, or the others.
func (r *Result) writeRemarks(w io.Writer, left bool) {
	var before *Kind
	for i := range r.Remarks {
		m := &r.Remarks[i]
		if m.Kind.Left != left {
			continue
		}
		if k := m.Kind; k != before {
			fmt.Fprintf(w, "\n  %s\n    there: %s\n    here:  %s\n    do:    %s\n", k.What, k.There, k.Here, k.Do)
			before = k
		}
		fmt.Fprintf(w, "      %s\n", m)
	}
}
