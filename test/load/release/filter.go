//go:build linux

package release

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// filters are Envoys with the filter, as each of its modules, beside one without. The table has a place for each key that the
// region rejects; one that it admits leaves it when its lease is spent. There are places for little more than the keys: it is
// measured with these, and with a quarter more, of which it keeps as many as fit.
func (b *bench) filters() []table.Section {
	r := b.region("pops-region", "weir-regional", "region")
	r.Start()
	bare := b.pop("bare", func(e *envoy.Bootstrap) { e.SetFilter(nil) })
	image, archive := b.sized("weir-filter"), b.sized("weir")
	archive.Note = "writes the filter where Envoy runs"
	sections := []table.Section{{Title: "Images with the filter", Rows: []table.Row{image, archive}}}
	b.Must(b.count(r.Addr, "region", b.keys*5/4)) // no key has a unit left
	return append(sections,
		b.filter("WASM module", r.Addr, bare, func(e *envoy.Bootstrap) { e.SetModule(filepath.Join(b.unpacked, "bin", "weir.wasm")) }),
		b.filter("native module", r.Addr, bare, (*envoy.Bootstrap).SetNative))
}

// filter measures an Envoy with one of the modules.
func (b *bench) filter(name, region string, bare *envoy.Envoy, edit func(*envoy.Bootstrap)) table.Section {
	pop := b.pop(strings.ReplaceAll(name, " ", "-"), func(e *envoy.Bootstrap) {
		e.SetCluster("weir_region", region)
		e.SetPlugin(map[string]any{"table_pages": b.pages})
		edit(e)
	})
	defer pop.Stop()
	var starts, bareStarts measure.Sample
	for range b.starts { // in turns
		bareStarts = append(bareStarts, b.ready(bare.Process, "http://"+bare.Admin+"/ready", bare.Begin))
		starts = append(starts, b.ready(pop.Process, "http://"+pop.Admin+"/ready", pop.Begin))
	}
	proc.Eventually(b, time.Minute, "the filter has its rules", func() bool {
		resp, _, err := page.Get(b.Ctx, http.DefaultClient, "http://"+pop.Addr+"/", "x-user-id", "probe")
		return err == nil && resp.Header.Get("RateLimit-Policy") != ""
	})
	bareEmpty := b.resident(bare.Process)
	rows := []table.Row{
		{Name: "from the start of Envoy until it is ready", Unit: "s", Value: starts, Peer: bareStarts},
		{Name: "resident memory of Envoy at its start", Unit: "MB", Value: b.resident(pop.Process), Peer: bareEmpty}}
	each, sent := drive.Each(), 0
	for _, keys := range []int{b.keys, b.keys / 4} {
		b.touch(pop, each, keys)
		sent += keys
		kept, places := b.table(pop)
		rows = append(rows, table.Row{Name: fmt.Sprintf("resident memory of Envoy after %d keys", sent), Unit: "MB", Value: b.resident(pop.Process), Peer: bareEmpty,
			Note: fmt.Sprintf("%d of them in a table with %d places, %d were evicted", kept, places, pop.Stat("wasmcustom.weir.table_evicted"))})
	}
	return table.Section{Title: "Envoy with the filter as a " + name + ", one worker", Rows: rows}
}

// pop starts an Envoy that answers each request itself.
func (b *bench) pop(name string, edit func(*envoy.Bootstrap)) *envoy.Envoy {
	e := envoy.New(b, envoy.Config{Dir: b.Dir, Name: name, Listener: "pop", Workers: 1})
	e.Bootstrap.OnlyListener("pop")
	e.Bootstrap.DropAccessLog()
	e.Bootstrap.TrustClients()
	e.Bootstrap.AddRoute(map[string]any{"match": map[string]any{"prefix": "/"}, "direct_response": map[string]any{"status": http.StatusOK}})
	edit(e.Bootstrap)
	e.Start()
	return e
}

// touch asks once for each of the next keys, all of which are rejected.
func (b *bench) touch(pop *envoy.Envoy, each drive.Keys, keys int) {
	client, err := drive.Dial(pop.Addr, "/", each, 256)
	b.Must(err)
	defer client.Close()
	r, err := client.Run(b.Ctx, drive.Pace{Duration: 10 * time.Minute, Requests: int64(keys)})
	b.Must(err)
	if n := r.Status[http.StatusTooManyRequests]; n < int64(keys)*98/100 {
		b.Fatalf("of %d keys only %d were rejected in time", keys, n)
	}
}

// table is how many keys the filter's table has, which a worker counts in rounds of 10 s, and places for them.
func (b *bench) table(pop *envoy.Envoy) (keys, places int64) {
	b.Wait(21 * time.Second) // the whole of a round
	stats := pop.Stats("weir.table_")
	keys, places = stats["wasmcustom.weir.table_keys"], stats["wasmcustom.weir.table_places"]
	if keys == 0 {
		b.Fatalf("the filter does not state how many keys it has: %v", stats)
	}
	return keys, places
}
