//go:build linux

package edge

import "testing"

// Every mapping is counted to what it is for.
func TestReadMappings(t *testing.T) {
	var used [kinds]float64
	for _, m := range readMappings(`563bba559000-563bbc5d6000 r--p 00000000 fe:01 77  /venv/envoy/_bin/envoy
Size:              33268 kB
Referenced:            1 kB
563bbc5d7000-563bc073d000 r-xp 0207e000 fe:01 77  /venv/envoy/_bin/envoy
Referenced:            2 kB
563bc0b50000-563bc0e00000 rw-p 00000000 00:00 0
Referenced:            4 kB
132fb9d6f000-132fba9ea000 rwxp 00000000 00:00 0
Referenced:            8 kB
7f4c0b6e0000-7f4c0bd60000 rw-p 00000000 00:00 0
Referenced:           16 kB
7f4c0bd60000-7f4e0b70c000 ---p 00000000 00:00 0
Referenced:            0 kB
7f52a77d9000-7f52a792f000 r-xp 00026000 fe:01 99  /usr/lib/libc.so.6
Referenced:           32 kB
7ffc0d1e0000-7ffc0d201000 rw-p 00000000 00:00 0   [stack]
Referenced:           64 kB
7ffc0d3a0000-7ffc0d3a2000 r-xp 00000000 00:00 0   [vdso]
Referenced:          128 kB
`) {
		used[m.kind] += m.touched
	}
	want := [kinds]float64{code: 2, constants: 1, libraries: 32 + 128, compiled: 8, linear: 16, heap: 4 + 64}
	if used != want {
		t.Errorf("got %v, want %v", used, want)
	}
}
