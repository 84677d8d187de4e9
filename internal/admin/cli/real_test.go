package cli

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/admin/api/keysapi"
	"github.com/weirlimit/weir/internal/admin/api/liveapi"
	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
)

// installation serves an API with some operations.
func installation(t *testing.T, add func(a *api.API)) Installation {
	t.Helper()
	a := api.New(api.Config{Loopback: true, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewRegistry("test")})
	add(a)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(func() { a.End(); server.Close() })
	return Installation{Admin: strings.TrimPrefix(server.URL, "http://")}
}

// run runs a command, which has to print texts.
func run(t *testing.T, c command, wants ...string) {
	t.Helper()
	var out bytes.Buffer
	if err := c.Run(&out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q:\n%s", want, &out)
		}
	}
}

// Requests are explained, and counters of keys printed and reset, through the API itself.
func TestKeys(t *testing.T) {
	t.Parallel()
	counters := service.NewService(service.Config{
		Store: memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 24}), Metrics: telemetry.NewRegistry("test"), Log: slog.New(slog.DiscardHandler),
	})
	set, err := rulefile.Parse("rules", []byte(`rules:
- { name: login, match: { path: /login }, key: [{ header: x-user }], limit: 5/1h, overrides: [{ name: vip, key: [ann], limit: 7/1h }] }
- { name: api, match: { header: { x-tier: gold } }, key: [client_ip], limit: 9/1h }
`))
	if err == nil {
		err = counters.SetRules(set)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := installation(t, func(a *api.API) {
		keysapi.Add(a, keysapi.Config{Service: counters, InForce: func() v1.InForce { return v1.InForce{} }})
	})
	list := listing{at, Output{"table"}}
	run(t, &Explain{URL: "/login?a=b", Method: "GET", Header: []string{"X-User: ann"}, listing: list}, "login  yes", "ann  1     7          7", "api    no       header x-tier")
	run(t, &Explain{Line: `{"path":"/login?a=\"b","headers":{"x-user":"ann"}}`, listing: list}, "login  yes", "ann  1     7          7", "api    unknown", "header x-tier, client_ip", "no rule refuses it, by what counters hold; those")
	run(t, &Explain{Line: "{}", listing: list}, "login  unknown", "path, header x-user")
	run(t, &Explain{URL: "/", listing: list}, "login  no       path", "no rule applies to it")
	run(t, &Peek{counted{"login", []string{"ann"}}, false, list}, "login  vip       ann             7      7", "yes")
	run(t, &Peek{counted{"login", []string{"bob"}}, false, list}, "login            bob             5      5")
	run(t, &Reset{counted{"login", []string{"ann"}}, change{at, "a sale"}, Output{"table"}}, "login  vip       ann             7      7")
	if err := (&Peek{counted{"none", []string{"bob"}}, false, list}).Run(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}

// A PoP that reports shows in the commands, through the API itself.
func TestLive(t *testing.T) {
	t.Parallel()
	desk := live.New(live.Config{Region: "eu", Reports: new(live.Memory), Watches: new(live.Memory)})
	at := installation(t, func(a *api.API) {
		liveapi.Add(a, liveapi.Config{
			Desk: desk, Rules: func() []string { return []string{"idle", "login"} }, InForce: func() v1.InForce { return v1.InForce{Revision: 7} },
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = desk.Run(ctx) })
	running.Go(func() {
		holder := []byte("0123456789abcdef")
		for ctx.Err() == nil {
			_, err := desk.Take("192.0.2.1", &quotapb.ReportRequest{
				Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 1, Pop: "fra1",
				Members:   []*quotapb.Member{{Kind: quotapb.MemberKind_MEMBER_KIND_POP, Name: "fra1", Holder: holder, Worker: 1, RulesVersion: "abc", RulesRevision: 7}},
				Rules:     []*quotapb.RuleUse{{Rule: "login", Matched: 9, Admitted: 9}},
				Keys:      []*quotapb.KeyRate{{Rule: "login", Key: []byte("a\x1bb\xff"), Count: 10_000}},
				Decisions: []*quotapb.Decision{{Rule: "login", Key: []byte("a\x1bb\xff"), Outcome: quotapb.Outcome_OUTCOME_DENIED}},
			})
			if err != nil {
				t.Error(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	list := listing{at, Output{"table"}}
	run(t, &Status{list}, "region eu; rules 7 are in force", "pop   eu      fra1  7")
	run(t, &Top{listing: list, By: "key", Limit: 5}, `login            a\x1bb�        10.0`)
	run(t, &Top{listing: list, By: "rule", Limit: 5}, "matched-nothing")
	run(t, &Tap{Installation: at, Rule: "login", Outcome: "denied", PerSecond: 5, For: 3 * time.Second, Output: "table"}, `denied       fra1  login  a\x1bb�  remaining 0`)
	if err := (&Tap{Installation: at, Rule: "none", PerSecond: 5, For: time.Second}).Run(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "no rule none") {
		t.Error(err)
	}
	if err := at.Use(func(ctx context.Context, c *client.Client) error { return Wait(ctx, c, 7, new(bytes.Buffer)) }); err != nil {
		t.Error(err)
	}
}
