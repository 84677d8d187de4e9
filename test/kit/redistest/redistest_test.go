package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestServer(t *testing.T) {
	s := StartWith(t, Password("secret"), Args("--maxmemory", "64mb"))
	if got := s.Do("SET", "a", "1"); got != "OK" {
		t.Fatalf("SET answered %v", got)
	}
	if c := s.CommandStats()["set"]; c.Calls != 1 || c.Micros < 0 {
		t.Errorf("one SET, counted as %+v", c)
	}
	if s.Info("memory")["maxmemory"] != "67108864" {
		t.Errorf("settings did not arrive: %v", s.Info("memory"))
	}

	s.Pause()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Try("GET", "a")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Resume()
	if err := <-answered; err != nil {
		t.Errorf("resumed: %v", err)
	}

	s.Restart()
	if got := s.Do("GET", "a"); got != nil {
		t.Errorf("restarted and not empty: %v", got)
	}
	s.Kill()
	if _, err := s.Try("PING"); err == nil {
		t.Error("a killed server answers")
	}
	if !s.Exited() || !strings.Contains(s.Log(), "Ready to accept connections") {
		t.Errorf("log: %s", s.Log())
	}
}

func TestSlot(t *testing.T) {
	s := StartCluster(t, 1, 0).Nodes[0]
	for _, key := range []string{"", "a", "123456789", "{a}b", "x{a}b", "x{}b", "x{", "x}{y}", "weir:{r:k%7D}:0"} {
		if got, want := int64(HashSlot(key)), s.Do("CLUSTER", "KEYSLOT", key); got != want {
			t.Errorf("HashSlot(%q) = %d, Redis returns %v", key, got, want)
		}
	}
}

func TestCluster(t *testing.T) {
	c := StartCluster(t, 3, 1)
	if n := len(c.Masters()); n != 3 {
		t.Fatalf("%d masters", n)
	}
	const key = "weir:{r:k}"
	lost := c.MasterOf(key)
	if replicas := c.ReplicasOf(lost); len(replicas) != 1 {
		t.Fatalf("%d replicas of %s", len(replicas), lost.Addr)
	}
	lost.Do("SET", key, "1")
	lost.Do("WAIT", 1, 1000)

	lost.Kill()
	next := c.AwaitMaster(HashSlot(key), lost)
	if got := next.Do("GET", key); got != "1" {
		t.Errorf("the promoted replica has %v", got)
	}
	lost.Restart()
	c.Await()
	if got := c.ReplicasOf(next); len(got) != 1 || got[0] != lost {
		t.Errorf("the old master came back as no replica: %v", got)
	}
}

func TestMigrate(t *testing.T) {
	c := StartCluster(t, 2, 0)
	from := c.MasterOf("{a}")
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	for i := range 10 {
		from.Do("SET", fmt.Sprintf("{a}%d", i), i)
	}
	var steps []Step
	c.Migrate(HashSlot("a"), to, func(s Step) {
		steps = append(steps, s)
		_, err := from.Try("GET", "{a}9999")
		want := "ASK"
		if s == Closed {
			want = "MOVED"
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("step %d: %v, want %s", s, err, want)
		}
	})
	if fmt.Sprint(steps) != "[0 1 2 3]" || c.MasterOf("{a}") != to {
		t.Errorf("steps %v; %s has the slot, want %s", steps, c.MasterOf("{a}").Addr, to.Addr)
	}
	for i := range 10 {
		if got := to.Do("GET", fmt.Sprintf("{a}%d", i)); got != fmt.Sprint(i) {
			t.Errorf("key %d became %v", i, got)
		}
	}
}
