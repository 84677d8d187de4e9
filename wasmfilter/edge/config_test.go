package edge

import (
	"testing"

	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// Whatever the text: an error or a configuration that a worker can start with.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"region_cluster":"r","table_pages":64,"rules":{"rules":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _ := rulebook.ReadConfig(text)
		New(c, tabletest.New(), [6]uint64{1, 2, 3, 4, 5, 6}, 1, 1)
	})
}
