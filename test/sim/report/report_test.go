package report

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestDocuments holds docs/simulator.md and its plot to what the simulator makes.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	const page, seed = "../../../docs/simulator.md", 1
	results := fatal.Get(sweep(seed))(t)
	few, plot := fatal.Get(fewTables())(t), fatal.Get(draw(results))(t)
	text := replaceTable(string(golden.Content(t, page)), sweepBegins, table(results))
	golden.Same(t, page, replaceTable(text, fewBegins, few))
	golden.Same(t, "../../../docs/simulator.svg", plot)
}
