package measure

import (
	"sort"
	"strings"
)

// Profile is where a process spent its CPU time, in samples of its call stack.
// The zero value is empty.
type Profile struct {
	Samples int
	// What V8 compiled from a wasm module has no symbols, but its place
	// shows what it is, and so what it called. The four add up to Samples.
	Wasm   int // in the module's own code
	Host   int // in what the module called: header maps, shared data, and so on
	Kernel int // in the kernel, not called from the module
	Rest   int // everything else, the calls into the module included
	// Leaves counts the samples by the function that was running, where it has a
	// name.
	Leaves map[string]int
}

// ParsePerfScript reads what `perf script -F ip,sym,dso` prints of a recording
// with call stacks: one frame per line, innermost first, samples separated by
// empty lines.
func ParsePerfScript(text string) Profile {
	p := Profile{Leaves: map[string]int{}}
	var stack []string
	for line := range strings.Lines(text + "\n\n") {
		if line = strings.TrimSpace(line); line != "" {
			stack = append(stack, line)
			continue
		}
		if len(stack) > 0 {
			p.add(stack)
			stack = stack[:0]
		}
	}
	return p
}

func (p *Profile) add(stack []string) {
	p.Samples++
	name, leaf := splitFrame(stack[0])
	if name != "" {
		p.Leaves[name]++
	}
	if isCompiled(leaf) {
		p.Wasm++
		return
	}
	for _, frame := range stack {
		if _, dso := splitFrame(frame); isCompiled(dso) {
			p.Host++
			return
		}
	}
	if strings.HasPrefix(leaf, "[kernel") {
		p.Kernel++
		return
	}
	p.Rest++
}

// splitFrame splits "55cb94b main.run (/usr/bin/envoy)" into the function and
// the object it lies in. An unknown function has no name.
func splitFrame(frame string) (name, dso string) {
	_, rest, _ := strings.Cut(frame, " ")
	at := strings.LastIndex(rest, "(")
	if at < 0 {
		return "", ""
	}
	name = strings.TrimSpace(rest[:at])
	if name == "[unknown]" {
		name = ""
	}
	return name, strings.TrimSuffix(rest[at+1:], ")")
}

// isCompiled reports whether an object is memory that a process has filled with
// code at run time, as perf calls it.
func isCompiled(dso string) bool {
	return strings.HasPrefix(dso, "/tmp/perf-") || strings.HasPrefix(dso, "[JIT]") || dso == "//anon"
}

// Top are the n names with the most samples, the most first.
func (p Profile) Top(n int) []string {
	names := make([]string, 0, len(p.Leaves))
	for name := range p.Leaves {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := p.Leaves[names[i]], p.Leaves[names[j]]
		return a > b || a == b && names[i] < names[j]
	})
	return names[:min(n, len(names))]
}
