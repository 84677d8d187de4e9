package live_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/wire"
)

// A holder shows itself alone, whatever it says: a PoP one member, a region its replicas and PoPs.
func TestOthersMembers(t *testing.T) {
	other := &quotav1.Member{
		Kind: quotav1.MemberKind_MEMBER_KIND_AGGREGATOR, Region: "us", Name: "fra2", Holder: []byte("0123456789abcdef"), Worker: 9, LastReportMs: 60_000, Workers: 100, Keys: 7,
	}
	for name, c := range map[string]struct {
		config  live.Config
		members []*quotav1.Member
		want    string
	}{
		"of a PoP":     {live.Config{Region: "eu"}, []*quotav1.Member{other, {Name: "fra3"}}, "1 eu fra1 fra1             1 1 7"},
		"none":         {live.Config{Region: "eu"}, nil, "1 eu fra1 fra1             1 1 0"},
		"of no region": {live.Config{}, nil, "1 de fra1 fra1             1 1 0"},
		"of a region": {live.Config{Regions: true}, []*quotav1.Member{other, {Name: "none"}, {Kind: 2, Region: "us", Name: "b"}, {Kind: 1, Name: "a", Workers: 3, Worker: 5}},
			"2 de b  0 1 0, 1 de a  5 3 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := start(t, 1, c.config).collectors[0]
			d.Begin(t.Context(), nil)
			m := report("fra1", 1)
			m.Region, m.Members = "de", nil
			for _, of := range c.members {
				m.Members = append(m.Members, proto.CloneOf(of))
			}
			take(t, d, m)
			time.Sleep(time.Second)
			var got []string
			for _, m := range see(t, d).Members {
				if m.Name == "replica0" {
					continue
				}
				got = append(got, fmt.Sprint(int(m.Kind), " ", m.Region, " ", m.Name, " ", string(m.Holder), " ", m.Worker, " ", m.Workers, " ", m.Keys))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		})
	}
}

// Who makes up holders, workers or very large reports fills the quarter of an address, and what others show is there.
func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		config live.Config
		lie    func(i int) *quotav1.ReportRequest
		rows   int // of the liar
	}{
		"holders": {live.Config{MaxBytes: 80 << 10}, func(i int) *quotav1.ReportRequest { return report(fmt.Sprint("liar", i), 1) }, 5},
		"workers": {live.Config{}, func(i int) *quotav1.ReportRequest { return report("liar", uint64(i)) }, 2048},
		"bytes": {live.Config{MaxBytes: 1 << 20}, func(i int) *quotav1.ReportRequest {
			m := report("liar", uint64(i))
			for j := range 100 {
				m.Keys = append(m.Keys, &quotav1.KeyRate{Rule: strings.Repeat("r", 100), Key: fmt.Append(nil, strings.Repeat("k", 100), j), Count: 1 << 52})
			}
			return m
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, 1, c.config).collectors[0]
				renew, _ := d.Begin(t.Context(), nil)
				taken := 0
				for i := range 3000 {
					_, err := d.Take("198.51.100.1", c.lie(i))
					if err == nil {
						taken++
					} else if !errors.Is(err, live.ErrFull) {
						t.Fatal(err)
					}
				}
				if taken != c.rows {
					t.Errorf("%d rows of the liar, want %d", taken, c.rows)
				}
				take(t, d, report("fra1", 1))
				if time.Sleep(time.Second); !strings.Contains(fmt.Sprint(names(see(t, d))), "fra1") {
					t.Errorf("%v", names(see(t, d)))
				}
				for range 70 {
					time.Sleep(time.Second)
					renew()
					take(t, d, report("fra1", 1))
				}
				if _, err := d.Take("198.51.100.1", c.lie(9999)); err != nil {
					t.Errorf("after a minute: %v", err)
				}
			})
		})
	}
}

func names(v *live.View) (all []string) {
	for _, m := range v.Members {
		all = append(all, m.Name)
	}
	return all
}

// The largest numbers, and rules that nobody has, spoil neither what others show nor what the region passes up.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := watching("eu")
		known := func(rule string) bool { return rule == "login" }
		d := start(t, 1, live.Config{Region: "eu", Aggregator: up, Known: known}).collectors[0]
		const most = 1<<53 - 1
		for range 8 {
			for w := range uint64(20) {
				m := report("liar", w)
				of := m.Members[0]
				of.Keys, of.Places, of.AgeMs, of.RulesAgeMs, of.LastReportMs, of.ReservePerMille, of.Workers = most, most, most, most, most, 1000, 1<<32-1
				m.Keys = []*quotav1.KeyRate{{Rule: "login", Key: []byte("x"), Count: most, Over: most}, {Rule: "none", Key: []byte("x"), Count: most}}
				m.Denied = slices.Clone(m.Keys)
				m.Rules = []*quotav1.RuleUse{{Rule: "login", Matched: most, NoKey: most, Admitted: most, Denied: most, ShadowDenied: most, AdmittedRate: most, DeniedRate: most}, {Rule: "none"}}
				m.Decisions = []*quotav1.Decision{{Rule: "login", Outcome: 1, AgeMs: most}, {Rule: "none", Outcome: 1}}
				take(t, d, m)
			}
			honest := report("fra1", 1)
			honest.Keys = []*quotav1.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 1000}}
			take(t, d, honest)
			time.Sleep(time.Second)
		}
		v := see(t, d)
		if len(v.Rules) != 1 || len(v.Busiest) != 2 || v.Busiest[1].PerSecond() != 1 && v.Busiest[0].PerSecond() != 1 {
			t.Errorf("%+v, %+v", v.Rules, v.Busiest)
		}
		if m := v.Members[len(v.Members)-1]; m.Name != "liar" || m.Workers > wire.MaxListed || m.LastReportMs > 3000 {
			t.Errorf("%+v", m)
		}
		got := up.reports()
		decisions := 0
		for _, m := range got {
			decisions += len(m.Decisions)
			if _, err := live.New(live.Config{Regions: true}).Take("a", proto.CloneOf(m)); err != nil {
				t.Errorf("the region's report is out of bounds: %v", err)
			}
		}
		if len(got) < 5 || decisions < 20 {
			t.Errorf("passed up %d reports with %d decisions", len(got), decisions)
		}
	})
}

// What a region passes up fits into one message, however much there is.
func TestLargeRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := watching("eu")
		s := start(t, 1, live.Config{Region: "eu", Aggregator: up, MaxBytes: 1 << 28})
		long := strings.Repeat("l", 120)
		for range 4 {
			for i := range 900 {
				m := report(fmt.Sprint("pop", i), 1)
				of := m.Members[0]
				of.Error, of.RulesVersion, of.Version = strings.Repeat("e", 200), long[:64], long[:64]
				for j := range 5 {
					k := &quotav1.KeyRate{Rule: long, Key: fmt.Append(nil, long, i, j)[:120+j], Count: 1000}
					m.Keys = append(m.Keys, k)
					m.Rules = append(m.Rules, &quotav1.RuleUse{Rule: fmt.Sprint(long, i%300), Matched: 1})
					m.Decisions = append(m.Decisions, &quotav1.Decision{Rule: long, Key: k.Key, Outcome: 1})
				}
				take(t, s.collectors[0], m)
			}
			time.Sleep(time.Second)
		}
		got := up.reports()
		last := got[len(got)-1]
		if n := proto.Size(last); n > wire.MaxReport || n < wire.MaxReport/2 {
			t.Errorf("%d bytes", n)
		}
		if _, err := live.New(live.Config{Regions: true}).Take("a", last); err != nil || last.Members[0].Kind != quotav1.MemberKind_MEMBER_KIND_REGION {
			t.Errorf("%v: %+v", err, last.Members[0])
		}
	})
}
