package live_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
)

// aggregator is one that watches.
type aggregator struct {
	mu     sync.Mutex
	left   time.Duration
	answer *quotav1.ReportResponse
	got    []*quotav1.ReportRequest
	to     *live.Collector // takes the reports in the place of answer; nil: nobody
	region string          // whose reports it gets
}

// watching is one that watches and taps, and gets the reports of a region.
func watching(region string) *aggregator {
	tap := &quotav1.ReportResponse{Protocol: 1, WatchMs: 60_000, Tap: &quotav1.Tap{PerSecond: 1000}}
	return &aggregator{region: region, left: time.Minute, answer: tap}
}

func (a *aggregator) Watched() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.to != nil {
		return time.Duration(a.to.WatchMs()) * time.Millisecond
	}
	return a.left
}

func (a *aggregator) Report(_ context.Context, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.Protocol, m.ProtocolMax, m.Holder, m.Region = 1, 1, []byte("0123456789abcdef"), a.region
	a.got = append(a.got, m)
	if a.to != nil {
		return a.to.Take("192.0.2."+m.Region, proto.CloneOf(m))
	}
	return a.answer, nil
}

// reports are those that it got.
func (a *aggregator) reports() []*quotav1.ReportRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

func (a *aggregator) calls() int { return len(a.reports()) }

// What is watched at the aggregator is collected in all regions, each of which one replica shows.
func TestRegions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := start(t, 1, live.Config{Regions: true, Expected: func() []string { return []string{"ap", "eu", "us"} }}).collectors[0]
		links, regions := map[string]*aggregator{}, map[string]*tier{}
		for _, name := range []string{"eu", "us"} {
			links[name] = &aggregator{to: top, region: name}
			regions[name] = start(t, 3, live.Config{Region: name, Aggregator: links[name]})
		}
		time.Sleep(5 * time.Second)
		if n := links["eu"].calls(); n != 0 {
			t.Errorf("%d reports while nobody watches", n)
		}
		tap := &quotav1.Tap{Rule: "login", PerSecond: 100}
		renew, end := top.Begin(t.Context(), tap)
		seen, shown := map[string]int64(nil), map[string]int{}
		for i := range 20 {
			for name, r := range regions {
				for p, d := range r.collectors { // the calls of a PoP go to any replica
					m := report(fmt.Sprint(name, (p+i)%3), 1)
					if take(t, d, m).Tap != nil {
						break
					}
				}
				m := report(name+"-pop", 1)
				m.Keys = []*quotav1.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 1000}}
				m.Rules = []*quotav1.RuleUse{{Rule: "login", Admitted: uint64(100 * i), AdmittedRate: 90_000}}
				m.Decisions = []*quotav1.Decision{{Rule: "login", Key: fmt.Append(nil, name, i), Outcome: quotav1.Outcome_OUTCOME_DENIED}}
				take(t, r.collectors[i%3], m)
			}
			time.Sleep(1100 * time.Millisecond)
			renew()
			var found []live.Decision
			found, seen = see(t, top).Decisions(tap, seen)
			for _, d := range found {
				if shown[string(d.Key)]++; d.Of != string(d.Key[:2]) {
					t.Errorf("%+v", d)
				}
			}
		}
		v := see(t, top)
		if v.Of != "all regions" || !slices.Equal(v.Missing, []string{"ap"}) {
			t.Errorf("%s, missing %v", v.Of, v.Missing)
		}
		kinds := map[string]int{}
		for _, m := range v.Members {
			kinds[fmt.Sprint(int(m.Kind), m.Region)]++
		}
		if kinds["3"] != 1 || kinds["2eu"] != 3 || kinds["2us"] != 3 || kinds["1eu"] < 2 || kinds["1us"] < 2 {
			t.Errorf("%v", kinds)
		}
		if k := v.Busiest; len(k) != 1 || k[0].PerSecond() != 2 {
			t.Errorf("%+v", k)
		}
		if k := v.ByPoP(false); len(k) != 2 || k[0].Of != "eu" || k[1].Of != "us" || k[0].PerSecond() != 1 {
			t.Errorf("%+v", k)
		}
		if u := v.Rules; len(u) != 1 || u[0].Admitted < 3000 || u[0].AdmittedRate != 180_000 {
			t.Errorf("%+v", u)
		}
		for key, times := range shown {
			if times > 1 {
				t.Errorf("%s was shown %d times", key, times)
			}
		}
		if len(shown) < 20 {
			t.Errorf("%d of 40 decisions were shown", len(shown))
		}
		end()
		time.Sleep(10 * time.Second)
		before := links["eu"].calls()
		time.Sleep(10 * time.Second)
		if after := links["eu"].calls(); after != before || regions["eu"].collectors[0].WatchMs() != 0 {
			t.Errorf("%d reports when nobody watches any more", after-before)
		}
	})
}
