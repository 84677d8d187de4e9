//go:build linux

package release

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/load/table"
)

// rules has one rule, of which each key has one unit a day.
func rules(scope string) string {
	return "rules:\n  - { name: each, key: [ { header: x-user-id } ], limit: 1/1d, algorithm: fixed_window, timeout: 1s, scope: " + scope + " }\n"
}

// enough is --max-memory where so many keys have room in each table: by default a half of them has in an aggregator.
const enough = "4GiB"

// inMemory is weir-regional without Redis.
func (b *bench) inMemory() []table.Section {
	return []table.Section{b.program("weir-regional, counters in memory", "weir-regional", "region")}
}

// inRedis is weir-regional with a cluster of three masters.
func (b *bench) inRedis() []table.Section {
	redis := redistest.StartCluster(b, 3, 0)
	before, _ := redis.Memory()
	s := b.program("weir-regional, counters in a Redis Cluster", "weir-regional", "region", "--redis", strings.Join(redis.Addrs(), ","))
	used, keys := redis.Memory()
	if keys < int64(b.keys) {
		b.Fatalf("Redis has only %d of %d keys", keys, b.keys)
	}
	s.Rows = append(s.Rows, table.Row{Name: "used_memory of Redis", Unit: "MB", Value: measure.Sample{float64(used) / 1e6},
		Note: fmt.Sprintf("%d keys on three masters, %.1f when empty", keys, float64(before)/1e6)})
	return []table.Section{s}
}

// global is weir-global, which counts in memory.
func (b *bench) global() []table.Section {
	return []table.Section{b.program("weir-global, counters in memory", "weir-global", "global")}
}

// program measures one of the release.
func (b *bench) program(title, program, scope string, flags ...string) table.Section {
	name := strings.ReplaceAll(strings.ReplaceAll(title, ",", ""), " ", "-")
	r := b.region(name, program, scope, flags...)
	r.Start()
	var starts measure.Sample
	for range b.starts {
		starts = append(starts, b.ready(r.Process, "http://"+r.Admin+"/readyz", r.Begin))
	}
	empty := b.resident(r.Process)
	b.Must(b.count(r.Addr, scope, b.keys))
	m := r.Metrics()
	kept, cached := m["weir_store_keys"], m["weir_lease_cache_keys"]
	if kept < float64(b.keys) && cached == 0 {
		b.Fatalf("%s has only %.0f of %d keys", title, kept, b.keys)
	}
	return table.Section{Title: title, Rows: []table.Row{
		b.sized(program),
		{Name: "from its start until it is ready", Unit: "s", Value: starts},
		{Name: "resident memory at its start", Unit: "MB", Value: empty},
		{Name: fmt.Sprintf("resident memory with %d keys", b.keys), Unit: "MB", Value: b.resident(r.Process),
			Note: fmt.Sprintf("%.0f of them in its table, --max-memory %s", max(kept, cached), enough)},
	}}
}

// region prepares a program of the release.
func (b *bench) region(name, program, scope string, flags ...string) *region.Region {
	return region.New(b, region.Config{Dir: b.Dir, Name: name, Program: program, Rules: rules(scope),
		Flags: append(flags, "--max-memory", enough, "--max-keys", strconv.Itoa(2*b.keys)),
		Command: func(argv []string) []string {
			return append([]string{filepath.Join(b.unpacked, "bin", program)}, argv[1:]...)
		}})
}
