package script_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// server is a Redis with every script loaded, and a client of it.
type server struct {
	*redistest.Server
	client *redis.Client
}

func start(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{Server: redistest.Start(t, redistest.Args(args...))}
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = s.client.Close() })
	for _, sc := range script.All() {
		sha, err := s.client.ScriptLoad(t.Context(), sc.Source).Result()
		if err != nil {
			t.Fatalf("%s: %v", sc.Name, err)
		}
		if sha != sc.SHA {
			t.Fatalf("%s: the server has SHA %s, the package %s", sc.Name, sha, sc.SHA)
		}
	}
	return s
}

// call is an ask that is to be answered in one pipeline with others.
type call struct {
	ask  engine.Ask
	mode script.Mode
	now  limit.Micros
}

func (c *call) args() []any {
	key := string(script.AppendKey(nil, c.ask.Policy, c.ask.Key))
	args := []any{"EVALSHA", script.For(c.ask.Policy.Limit).SHA, 1, key, string(script.AppendArgs(nil, &c.ask, c.mode, c.now))}
	if c.ask.Policy.Limit.Blocks() {
		args[2] = 2
		args = append(slices.Insert(args, 4, any(string(script.AppendBlockKey(nil, &c.ask, c.ask.Key)))), string(script.AppendBlockArgs(nil, &c.ask)))
	}
	return args
}

// answer is what came of a call, and how long its key then had to live, in ms: -2 there was none, -1 for ever.
type answer struct {
	grant lease.Grant
	fits  bool
	ttl   int64
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// play sends calls in one pipeline, so that no time passes that counts.
func (s *server) play(t failer, calls []call) []answer {
	t.Helper()
	pipe := s.client.Pipeline()
	var replies []*redis.Cmd
	for i := range calls {
		args := calls[i].args()
		replies = append(replies, pipe.Do(ctx, args...), pipe.Do(ctx, "PTTL", args[3]))
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	answers := make([]answer, len(calls))
	for i := range calls {
		a := &answers[i]
		reply, err := replies[2*i].Text()
		if err != nil {
			t.Fatalf("call %d, %+v: %v", i, calls[i].ask, err)
		}
		if a.grant, a.fits, err = script.Parse(reply, &calls[i].ask, calls[i].mode); err != nil {
			t.Fatalf("call %d, %+v: %v", i, calls[i].ask, err)
		}
		if a.ttl, err = replies[2*i+1].Int64(); err != nil {
			t.Fatalf("PTTL: %v", err)
		}
	}
	return answers
}
