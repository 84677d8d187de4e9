package e2e

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const regionsRules = `
rules:
  - { name: exact, match: { path: { prefix: /exact/ } }, key: [path], limit: 20/1d, algorithm: fixed_window,
      scope: global, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: strict, match: { path: { prefix: /strict/ } }, key: [path], limit: 10/1d, algorithm: fixed_window,
      scope: global, on_failure: deny }
`

// regions are regions with one PoP each, and the aggregator that all ask.
type regions struct {
	t          *testing.T
	aggregator *region.Region
	pops       []*stack.PoP
}

// startPoPs starts a PoP for each of these regions, all at once. edit changes the bootstrap
// of the i-th.
func startPoPs(t *testing.T, regions []string, edit func(b *envoy.Bootstrap, i int)) []*stack.PoP {
	t.Helper()
	i := 0
	s := stack.Start(t, stack.Config{PoPs: len(regions), RegionAddr: regions[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", regions[i])
		edit(b, i)
		i++
	}})
	awaitRules(t, s)
	return s.PoPs
}

// offer sends so many requests for a path to each of two regions, a few at a time. It returns how
// many each admitted, and how many there were of each status.
func (r *regions) offer(path string, each int) (admitted [2]int64, statuses map[int]int) {
	r.t.Helper()
	var counts [2]map[int]int
	var all sync.WaitGroup
	for i := range r.pops {
		all.Go(func() { counts[i] = r.send(i, path, each) })
	}
	all.Wait()
	statuses = map[int]int{}
	for i := range counts {
		admitted[i] = int64(counts[i][http.StatusOK])
		for status, n := range counts[i] {
			statuses[status] += n
		}
	}
	return admitted, statuses
}

// to sends requests to one region, and returns how many it admitted.
func (r *regions) to(region int, path string, requests int) int {
	return r.send(region, path, requests)[http.StatusOK]
}

// send sends requests to a region, four at a time, and counts the answers by status.
func (r *regions) send(region int, path string, requests int) map[int]int {
	r.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var next atomic.Int64
	statuses := map[int]int{}
	for range 4 {
		all.Go(func() {
			for next.Add(1) <= int64(requests) {
				resp, err := stack.Do(r.pops[region].Addr, http.MethodGet, path, "")
				if err != nil {
					r.t.Error(err)
					return
				}
				mu.Lock()
				statuses[resp.Status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return statuses
}
