package redistest

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestSentinel(t *testing.T) {
	for name, opts := range map[string][]Option{
		"plain":            nil,
		"TLS and password": {TLS(NewAuthority(t)), Password("secret")},
	} {
		t.Run(name, func(t *testing.T) {
			s := StartSentinel(t, 2, opts...)
			lost := s.Master()
			lost.Do("SET", "a", "1")
			lost.Do("WAIT", 2, 5000)
			lost.Kill()
			next := s.AwaitMaster(lost)
			if got := next.Do("GET", "a"); got != "1" {
				t.Errorf("the new master has %v", got)
			}
			lost.Restart()
			s.Await()
			if got := lost.Info("replication")["role"]; got != "slave" {
				t.Errorf("the old master came back as a %s", got)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	a := NewAuthority(t)
	s := StartWith(t, TLS(a))
	for name, c := range map[string]struct {
		config *tls.Config
		fails  string
	}{
		"with a certificate": {a.Client(), ""},
		"without":            {a.ClientWithout(), "certificate required"},
		"of another CA":      {NewAuthority(t).Client(), "signed by unknown authority"},
		"no TLS":             {nil, "EOF"},
	} {
		client := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: c.config, MaxRetries: -1})
		err := client.Ping(context.Background()).Err()
		_ = client.Close()
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
	}
}

func TestClusterWithTLSAndPassword(t *testing.T) {
	c := StartCluster(t, 2, 1, TLS(NewAuthority(t)), Password("secret"))
	from := c.MasterOf("a")
	from.Do("SET", "a", "1")
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[1]
	}
	c.Migrate(HashSlot("a"), to, nil)
	if got := to.Do("GET", "a"); got != "1" {
		t.Errorf("moved, it is %v", got)
	}
}

func TestUsers(t *testing.T) {
	s := StartWith(t, Users("user weir on >secret ~weir:* +get +set"))
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "weir", Password: "secret", Protocol: 2, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	if err := client.Set(t.Context(), "weir:a", 1, 0).Err(); err != nil {
		t.Error(err)
	}
	for _, err := range []error{client.Get(t.Context(), "other").Err(), client.Del(t.Context(), "weir:a").Err()} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v, want NOPERM", err)
		}
	}
	got := strings.Join(s.Refusals(), "; ")
	if got != "weir: key other (toplevel); weir: command del (toplevel)" {
		t.Errorf("refused: %s", got)
	}
	if got := s.Refusals(); len(got) != 0 {
		t.Errorf("and again: %v", got)
	}
}
