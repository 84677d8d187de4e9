package live_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/wire"
)

// A holder shows itself alone.
func TestOthersMembers(t *testing.T) {
	pop, region := live.New(live.Config{}), live.New(live.Config{Regions: true})
	for name, c := range map[string]struct {
		desk   *live.Desk
		change func(*wire.ReportRequest)
	}{
		"none":                {pop, func(m *wire.ReportRequest) { m.Members = nil }},
		"two":                 {pop, func(m *wire.ReportRequest) { m.Members = append(m.Members, m.Members[0]) }},
		"a replica":           {pop, func(m *wire.ReportRequest) { m.Members[0].Kind = wire.MemberRegion }},
		"another holder":      {pop, func(m *wire.ReportRequest) { m.Members[0].Holder = []byte("0123456789abcdef") }},
		"no holder":           {pop, func(m *wire.ReportRequest) { m.Members[0].Holder = nil }},
		"another worker":      {pop, func(m *wire.ReportRequest) { m.Members[0].Worker++ }},
		"another name":        {pop, func(m *wire.ReportRequest) { m.Members[0].Name = "fra2" }},
		"another region":      {region, func(m *wire.ReportRequest) { m.Members[0].Region = "us" }},
		"an aggregator":       {region, func(m *wire.ReportRequest) { m.Members[0].Kind = wire.MemberAggregator }},
		"one of no region":    {region, func(m *wire.ReportRequest) { m.Members = append(m.Members, wire.Member{Kind: wire.MemberPop}) }},
		"the last of several": {region, func(m *wire.ReportRequest) { m.Members = append(m.Members, m.Members[0], wire.Member{Region: "us"}) }},
	} {
		m := report("fra1", 1)
		if c.desk == region {
			m.Region, m.Members[0].Region = "eu", "eu"
		}
		if _, err := c.desk.Take("a", m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.change(m)
		var refused live.RefusedError
		if _, err := c.desk.Take("a", m); !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "members: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who makes up holders, workers or very large reports fills the quarter of an address, and what others show is there.
func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		config live.Config
		lie    func(i int) *wire.ReportRequest
		rows   int // of the liar
	}{
		"holders": {live.Config{MaxHolders: 5}, func(i int) *wire.ReportRequest { return report(fmt.Sprint("liar", i), 1) }, 5},
		"workers": {live.Config{}, func(i int) *wire.ReportRequest { return report("liar", uint64(i)) }, wire.MaxMembers / 4},
		"bytes": {live.Config{MaxBytes: 1 << 20}, func(i int) *wire.ReportRequest {
			m := report("liar", uint64(i))
			for j := range 100 {
				m.Keys = append(m.Keys, wire.KeyRate{Rule: strings.Repeat("r", 100), Key: fmt.Append(nil, strings.Repeat("k", 100), j), Count: 1 << 52})
			}
			return m
		}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, 1, c.config)
				d := s.desks[0]
				renew, end := d.Begin(t.Context(), live.Watch{Keys: true})
				defer end()
				taken := 0
				for i := range 3000 {
					_, err := d.Take("198.51.100.1", c.lie(i))
					if err == nil {
						taken++
					} else if !errors.Is(err, live.ErrFull) {
						t.Fatal(err)
					}
				}
				if taken < 5 || taken > c.rows {
					t.Errorf("%d rows of the liar, at most %d", taken, c.rows)
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

// One that reports all the time is shown once.
func TestTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, 1, live.Config{})
		_, end := s.desks[0].Begin(t.Context(), live.Watch{})
		defer end()
		for i := range 1000 {
			m := report("liar", 1)
			m.Members[0].Keys = uint64(i)
			take(t, s.desks[0], m)
		}
		time.Sleep(time.Second)
		if m := see(t, s.desks[0]).Members; m[len(m)-1].Keys != 0 {
			t.Errorf("%+v", m)
		}
	})
}

// The largest numbers, and rules that nobody has, spoil neither what others show nor what the region passes up.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &above{left: time.Minute, answer: wire.ReportResponse{Protocol: 1, WatchMs: 60_000, Keys: true, Tap: &wire.Tap{PerSecond: 1000}}}
		s := start(t, 1, live.Config{Region: "eu", Above: up, Known: func(rule string) bool { return rule == "login" }})
		d := s.desks[0]
		const most = 1<<53 - 1
		for range 8 {
			for w := range uint64(20) {
				m := report("liar", w)
				m.IntervalMs = 1
				of := &m.Members[0]
				of.Keys, of.Places, of.AgeMs, of.RulesAgeMs, of.SilentMs, of.ReservePerMille, of.Workers = most, most, most, most, most, 1000, 1<<32-1
				m.Keys = []wire.KeyRate{{Rule: "login", Key: []byte("x"), Count: most, Over: most}, {Rule: "none", Key: []byte("x"), Count: most}}
				m.Denied = m.Keys
				m.Rules = []wire.RuleUse{{Rule: "login", Matched: most, NoKey: most, Admitted: most, Denied: most, ShadowDenied: most}, {Rule: "none"}}
				m.Decisions = []wire.Decision{{Rule: "login", Outcome: 1, AgeMs: most}, {Rule: "none", Outcome: 1}}
				take(t, d, m)
			}
			honest := report("fra1", 1)
			honest.Keys = []wire.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 8000}}
			take(t, d, honest)
			time.Sleep(time.Second)
		}
		v := see(t, d)
		if len(v.Rules) != 1 || len(v.Busiest) != 2 || v.Busiest[1].PerSecond != 1 && v.Busiest[0].PerSecond != 1 {
			t.Errorf("%+v, %+v", v.Rules, v.Busiest)
		}
		if m := v.Members[len(v.Members)-1]; m.Name != "liar" || m.Workers > wire.MaxMembers || m.SilentMs > 3000 {
			t.Errorf("%+v", m)
		}
		got := up.reports()
		decisions := 0
		for _, m := range got {
			decisions += len(m.Decisions)
			if field := m.Check(); field != "" {
				t.Errorf("the region's report is out of bounds: %s", field)
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
		up := &above{left: time.Minute, answer: wire.ReportResponse{Protocol: 1, WatchMs: 60_000, Keys: true, Tap: &wire.Tap{PerSecond: 1000}}}
		s := start(t, 1, live.Config{Region: "eu", Above: up, MaxBytes: 1 << 28, MaxHolders: 5000})
		long := strings.Repeat("l", 120)
		for range 4 {
			for i := range 900 {
				m := report(fmt.Sprint("pop", i), 1)
				of := &m.Members[0]
				of.Error, of.RulesVersion, of.Version = strings.Repeat("e", 200), long[:64], long[:64]
				for j := range 5 {
					k := wire.KeyRate{Rule: long, Key: fmt.Append(nil, long, i, j)[:120+j], Count: 8000}
					m.Keys = append(m.Keys, k)
					m.Rules = append(m.Rules, wire.RuleUse{Rule: fmt.Sprint(long, i%300), Matched: 1})
					m.Decisions = append(m.Decisions, wire.Decision{Rule: long, Key: k.Key, Outcome: 1})
				}
				take(t, s.desks[0], m)
			}
			time.Sleep(time.Second)
		}
		got := up.reports()
		last := got[len(got)-1]
		if n := len(last.Append(nil)); n > wire.MaxReport || n < wire.MaxReport/2 {
			t.Errorf("%d bytes", n)
		}
		if field := last.Check(); field != "" || last.Members[0].Kind != wire.MemberRegion {
			t.Errorf("%s: %+v", field, last.Members[0])
		}
	})
}
