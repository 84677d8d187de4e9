package rulefile

import (
	"bytes"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// Run is a part of a file: so many bytes from a place on.
type Run struct {
	At   int `json:"at"`
	Size int `json:"size"`
}

// keyLimits finds [Document.KeyLimits].
func keyLimits(data []byte, root *strict.Node) (runs []Run) {
	lines := lineStarts(data)
	for _, r := range items(root.Field("rules")) {
		first, last := 0, 0
		for _, o := range items(r.Field("overrides")) {
			if o.Field("key") != nil {
				if first == 0 {
					first = o.Pos.Line
				}
				last = lastLine(&o)
			}
		}
		if first == 0 || last >= len(lines) {
			continue
		}
		run := Run{At: lines[first-1], Size: lines[last] - lines[first-1]}
		if n := len(runs); n == 0 || runs[n-1].At+runs[n-1].Size <= run.At {
			runs = append(runs, run)
		}
	}
	return runs
}

func items(n *strict.Node) []strict.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// lineStarts is where each line begins, and the end of the last one.
func lineStarts(data []byte) []int {
	starts := []int{0}
	for at := 0; at < len(data); {
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			at += n + 1
		} else {
			at = len(data)
		}
		starts = append(starts, at)
	}
	return starts
}

// lastLine is the last line on which a part of the node begins.
func lastLine(n *strict.Node) int {
	line := n.Pos.Line
	for i := range n.Items {
		line = max(line, lastLine(&n.Items[i]))
	}
	for i := range n.Fields {
		line = max(line, lastLine(&n.Fields[i].Value))
	}
	return line
}
