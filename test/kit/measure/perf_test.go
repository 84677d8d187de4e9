package measure

import (
	"slices"
	"testing"
)

const perfText = `
	    7f64db5005ce [unknown] (/tmp/perf-9479.map)
	         32da7a3 [unknown] (/opt/envoy)

	          10aba4 __memmove (/usr/lib/libc.so.6)
	    2fab59d80736 [unknown] (/tmp/perf-9479.map)
	         32da7a3 [unknown] (/opt/envoy)

	ffffffff82010ddb do_syscall_64 ([kernel.kallsyms])
	    2fab59d80736 [unknown] ([JIT] tid 9479)

	ffffffff82010ddb tcp_ack ([kernel.kallsyms])
	          10aba4 __send (/usr/lib/libc.so.6)

	         32da7a3 [unknown] (/opt/envoy)
	          10aba4 main.(*T).run (/opt/envoy)

	          10aba4 main.(*T).run (/opt/envoy)`

func TestParsePerfScript(t *testing.T) {
	p := ParsePerfScript(perfText)
	if p.Samples != 6 || p.Wasm != 1 || p.Host != 2 || p.Kernel != 1 || p.Rest != 2 {
		t.Errorf("profile = %+v, want 6 samples: 1 wasm, 2 host, 1 kernel, 2 rest", p)
	}
	if got, want := p.Top(2), []string{"__memmove", "do_syscall_64"}; !slices.Equal(got, want) {
		t.Errorf("Top = %q, want %q", got, want)
	}
	if p.Leaves["main.(*T).run"] != 1 {
		t.Errorf("leaves = %v, want one main.(*T).run", p.Leaves)
	}
}

func TestParsePerfScriptOfNothing(t *testing.T) {
	if p := ParsePerfScript("\n\n"); p.Samples != 0 || len(p.Top(3)) != 0 {
		t.Errorf("profile = %+v, want none", p)
	}
}
