package e2e

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// liar speaks the protocol with a region, and sends what no filter sends.
type liar struct {
	client quotapbconnect.QuotaServiceClient
	seq    uint64
	epoch  uint64 // of the last answer
}

// calls makes one call for several wants, and returns the grants.
func (l *liar) calls(t *testing.T, ws ...*quotapb.Want) []*quotapb.Grant {
	t.Helper()
	l.seq++
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := l.client.Acquire(ctx, connect.NewRequest(&quotapb.AcquireRequest{
		Protocol: 1, Holder: []byte("one that does li"), Seq: l.seq, Ack: l.seq - 1, Epoch: l.epoch, Pop: "mars", Wants: ws,
	}))
	if err != nil {
		t.Fatalf("call %d: %v", l.seq, err)
	}
	l.epoch = resp.Msg.GetEpoch()
	return resp.Msg.GetGrants()
}

const liarRegionRules = `
rules:
  - { name: strict, match: { path: { prefix: /strict/ } }, key: [path], limit: 300/1d, algorithm: fixed_window, scope: global, timeout: 1s, on_failure: deny }
  - { name: open, match: { path: { prefix: /open/ } }, key: [path], limit: 300/1d, algorithm: fixed_window, scope: global, timeout: 1s, on_failure: allow }
`

// TestLiarOfAnotherRegion: of three regions one has a PoP that lies to it in the protocol. It states to owe everything, to
// have refused everything, and to give back what it never had. The other two get their parts of each limit, and never
// more than the limit.
func TestLiarOfAnotherRegion(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitWindow(24*time.Hour, 3*time.Minute)
	r, eu := startLiarRegions(t)
	liar := &liar{client: quotapbconnect.NewQuotaServiceClient(eu.HTTP, "http://"+eu.Addr)}
	owe := func(rule, key string, n int) {
		for range n {
			liar.calls(t, &quotapb.Want{Rule: rule, Key: []byte(key), Overdrawn: math.MaxUint32, Debt: liar.seq + 1, Denied: math.MaxUint32})
		}
	}
	// both sends to both regions until each has half of so many of a key, or gets no more: a region may have what another
	// one does not want for a moment.
	both := func(path string, want int) (us, ap int) {
		for end := time.Now().Add(20 * time.Second); us+ap < want && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			us, ap = us+r.to(0, path, min(10, max(0, want/2-us))), ap+r.to(1, path, min(10, max(0, want-want/2-ap)))
		}
		return us, ap
	}
	t.Run("debts", func(t *testing.T) {
		for _, c := range []struct {
			rule string
			left int // to the others
		}{{"strict", 300}, {"open", 200}} {
			path := "/" + c.rule + "/owed"
			us, ap := both(path, 20) // they want some
			owe(c.rule, path, 10)
			moreUS, moreAP := both(path, c.left*19/20-us-ap)
			us, ap = us+moreUS+r.to(0, path, 50), ap+moreAP+r.to(1, path, 50)
			if us < c.left*2/5 || ap < c.left*2/5 || c.rule == "strict" && us+ap > c.left { // others admit what is not decided in time
				t.Errorf("%s: the other regions have %d and %d of %d", c.rule, us, ap, c.left)
			}
		}
	})
	t.Run("give-backs", func(t *testing.T) {
		const path = "/strict/minted"
		had := liar.calls(t, &quotapb.Want{Rule: "strict", Key: []byte(path), Need: 1, Waiting: 1, Want: 1})[0]
		us, ap := both(path, 285)
		for range 10 {
			liar.calls(t, &quotapb.Want{Rule: "strict", Key: []byte(path), Unused: 300, Lease: had.GetLease()})
		}
		if us, ap = us+r.to(0, path, 100), ap+r.to(1, path, 100); us+ap < 240 || us+ap > 300 {
			t.Errorf("the others have %d and %d of 300", us, ap)
		}
	})
	if log := r.aggregator.Log(); strings.Count(log, "region reports more units than count")+strings.Count(log, "region has no room for more keys") < 1 {
		t.Error("the log of the aggregator does not name the region")
	}
}

// regions are us and ap, with one PoP each, and the aggregator that all ask.
type regions struct {
	t          *testing.T
	aggregator *region.Region
	pops       []*stack.PoP
}

// to sends requests to one region, four at a time, and returns how many it admitted.
func (r *regions) to(region int, path string, requests int) int {
	r.t.Helper()
	if requests == 0 {
		return 0
	}
	tally := try(r.t, drive.Load{Addrs: []string{r.pops[region].Addr}, Conns: 4, Request: drive.Get(path), Count: int64(requests)})
	if tally.Failed > 0 {
		r.t.Error(tally.FirstError)
	}
	return int(tally.OK())
}

// startLiarRegions starts an aggregator and three regions, of which us and ap have a PoP each.
func startLiarRegions(t *testing.T) (*regions, *region.Region) {
	t.Helper()
	dir := proc.LogDir(t)
	r := &regions{t: t}
	r.aggregator = region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: liarRegionRules, Program: "weir-global", Flags: []string{"--state", "off"},
	})
	r.aggregator.Start()
	var all []*region.Region
	for _, name := range []string{"us", "ap", "eu"} {
		one := region.New(t, region.Config{
			Dir: dir, Name: name, Rules: liarRegionRules, Flags: []string{"--region", name, "--aggregator", r.aggregator.Addr, "--state", "off"},
		})
		one.Start()
		all = append(all, one)
	}
	next := 0
	s := stack.Start(t, stack.Config{PoPs: 2, RegionAddr: all[0].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", all[next].Addr)
		next++
	}})
	awaitRules(t, s)
	r.pops = s.PoPs
	for i := range r.pops { // the aggregator knows them
		proc.Eventually(t, time.Minute, "a first key is admitted", func() bool { return r.to(i, fmt.Sprint("/strict/", time.Now().UnixNano()), 1) == 1 })
	}
	return r, all[2]
}
