//go:build panics

package filter

import "strings"

// panicHeader makes the filter panic in a build for tests (-tags panics): as a request header, and as a label of the plugin
// configuration for on_configure. Its value names a hook, which panics when the VM runs it next. The value stack overflows
// the stack, which kills a WASM VM.
const panicHeader = "x-weir-test-panic"

// panics are the hooks of a VM that are to panic.
type panics struct{ armed string }

// arm reads the header of a request.
func (p *panics) arm(h Host) {
	if hook, ok := h.Header(panicHeader); ok {
		p.armed = strings.Clone(hook)
	}
	if p.armed == "stack" {
		overflow(0)
	}
}

// configure panics by the label of a plugin configuration.
func (p *panics) configure(labels map[string]string) {
	if labels[panicHeader] == "on_configure" {
		panic(panicHeader)
	}
}

// at panics if the hook is armed.
func (p *panics) at(hook string) {
	if p.armed == hook {
		p.armed = ""
		panic(panicHeader)
	}
}

// overflow calls itself until the stack is full.
func overflow(n int) int {
	if n < 0 {
		return n
	}
	return overflow(n+1) + 1
}
