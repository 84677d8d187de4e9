package edge

import (
	"fmt"
	"testing"
)

// Keys that come once, in a table that is full of such: what each costs the worker.
func BenchmarkFlood(b *testing.B) {
	for name, scope := range map[string]string{"region": "", "pop": `,"scope":"pop"`} {
		b.Run(name, func(b *testing.B) {
			w := newNarrowWorld(b, 1, 4, fmt.Sprintf(manyAndFew, scope, ""))
			flood := func(path string, n int) {
				w.request(0, path, fmt.Sprint("key", n))
				w.settle()
			}
			for n := range 3000 {
				flood("/a", -n)
			}
			for n := 0; b.Loop(); n++ {
				if n%1000 == 0 {
					w.now++
				}
				flood("/a", n)
			}
		})
	}
}
