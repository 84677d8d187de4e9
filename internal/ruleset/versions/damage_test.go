package versions

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// What people do to the keys by hand is named by its key, and a new version repairs it.
func TestByHand(t *testing.T) {
	t.Parallel()
	s := inFile(t)
	text := document(10)
	repeated := func(v Version, size, times int) string {
		v.Size, v.Chunks = size, slices.Repeat(v.Chunks, times)
		s.byHand(t, s.manifestKey(), string(v.Encode()))
		return s.manifestKey()
	}
	other := func(v Version, chunk string) string {
		v.Chunks = []string{sum([]byte(chunk))}
		s.byHand(t, s.chunkKey(v.Chunks[0]), chunk)
		s.byHand(t, s.manifestKey(), string(v.Encode()))
		return fmt.Sprint("revision ", v.Revision)
	}
	for name, break_ := range map[string]func(v Version) (key string){
		"manifest of another kind": func(Version) string { s.byHand(t, s.manifestKey(), "rules: []"); return s.manifestKey() },
		"manifest without chunks": func(Version) string {
			s.byHand(t, s.manifestKey(), `{"format":2,"revision":1}`)
			return s.manifestKey()
		},
		"one chunk 4,000 times":   func(v Version) string { return repeated(v, v.Size, 4000) },
		"the same, with its size": func(v Version) string { return repeated(v, 4000*chunkSize, 4000) },
		"a negative size":         func(v Version) string { return repeated(v, -1, 1) },
		"a smaller size":          func(v Version) string { repeated(v, v.Size-1, 1); return fmt.Sprint("revision ", v.Revision) },
		"twice the document":      func(v Version) string { repeated(v, v.Size, 2); return fmt.Sprint("revision ", v.Revision) },
		"no gzip":                 func(v Version) string { return other(v, "rules: []\n") },
		"missing chunk":           func(v Version) string { s.byHand(t, s.chunkKey(v.Chunks[0]), ""); return s.chunkKey(v.Chunks[0]) },
		"changed chunk": func(v Version) string {
			s.byHand(t, s.chunkKey(v.Chunks[0]), "rules: []\n")
			return s.chunkKey(v.Chunks[0])
		},
	} {
		before := apply(t, s, text, by("begin"))
		key := break_(before)
		v, err := s.Current(within(t))
		if err == nil {
			_, err = s.Document(within(t), v)
		}
		if damaged := new(DamagedError); !errors.As(err, &damaged) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want an error with %s", name, err, key)
		}
		after := apply(t, s, text, by("repair"))
		if inForce(t, s, after.Revision, text); after.Revision <= before.Revision {
			t.Errorf("%s: revision %d after %d", name, after.Revision, before.Revision)
		}
	}

	last := fatal.Get(s.Current(within(t)))(t)
	s.byHand(t, s.manifestKey(), "")
	if v := apply(t, s, text, by("repair")); v.Revision <= last.Revision {
		t.Errorf("revision %d after the manifest of revision %d was deleted", v.Revision, last.Revision)
	}
	s.byHand(t, s.manifestKey(), `{"format":4,"revision":100}`)
	if _, err := s.Apply(within(t), parsed(t, text), by("downgrade")); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("over a manifest of a newer release: %v", err)
	}
}

// A store that has lost everything gets a revision that is larger all the same, and so does one whose
// last writer had a clock that was ahead by less than a minute. A copy with a forged revision is written anew.
func TestRevisionGrows(t *testing.T) {
	t.Parallel()
	s := inFile(t)
	apply(t, s, document(1), by("begin"))
	before := apply(t, s, document(2), by("go on"))
	for _, key := range s.keys(t) {
		s.byHand(t, key, "")
	}
	ahead := apply(t, s, document(3), by("begin again"))
	if ahead.Revision <= before.Revision {
		t.Errorf("revision %d after %d", ahead.Revision, before.Revision)
	}
	ahead.Revision = uint64(time.Now().Add(mostAhead - 10*time.Second).UnixMicro())
	fatal.If(t, s.Mirror(within(t), ahead, Content{Document: document(3)}))
	for i := range 2 {
		if v := apply(t, s, document(4+i), by("go on")); v.Revision != ahead.Revision+1+uint64(i) {
			t.Errorf("revision %d after %d from a clock that was ahead", v.Revision, ahead.Revision)
		}
	}
	forged := ahead
	forged.Revision = 1<<53 - 1
	s.byHand(t, s.manifestKey(), string(forged.Encode()))
	fatal.If(t, s.Mirror(within(t), ahead, Content{Document: document(3)}))
	inForce(t, s, ahead.Revision, document(3))
}

// cutter is a way to an agent that ends at one of the calls of a writer: as if the writer,
// or the connection, had died just before or just after the agent did what it was asked for.
type cutter struct {
	agent http.Handler
	at    int64 // the call, from 1
	after bool
	calls atomic.Int64
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := c.calls.Add(1)
	if n == c.at && c.after {
		c.agent.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n == c.at || n > c.at && c.at > 0 {
		panic(http.ErrAbortHandler)
	}
	c.agent.ServeHTTP(w, r)
}

// through runs calls of a store through a cutter, and returns how many there were.
func (c *cutter) through(t *testing.T, f func(s *Store)) int64 {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	f(open(t, server.Listener.Addr().String()))
	return c.calls.Load()
}

// Whichever call of a writer is its last, readers have the version before or the new one as
// a whole, the next writer goes on, and nothing is left over.
func TestWriterDies(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	to := func(at int64, after bool) *cutter {
		return &cutter{agent: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.Addr}), at: at, after: after}
	}
	s := open(t, c.Addr)
	v := apply(t, s, document(1), by("begin"))
	text := large(2*chunkSize + 1)
	d := parsed(t, text)
	calls := to(0, false).through(t, func(s *Store) {
		fatal.Get(s.Apply(within(t), d, by("write")))(t)
		fatal.If(t, s.Clean(within(t)))
	})
	t.Logf("a writer makes %d calls", calls)
	var tried, applied, rejected int
	for at := int64(1); at <= calls; at++ {
		for _, after := range []bool{false, true} {
			if testing.Short() && after == (at%2 == 0) {
				continue
			}
			tried++
			v = apply(t, s, document(int(2*at)), by("before"))
			before := document(int(2 * at))
			to(at, after).through(t, func(s *Store) {
				_, err := s.Apply(within(t), d, by("write"))
				if err == nil {
					_ = s.Clean(within(t)) // dies
				}
				now, readErr := open(t, c.Addr).Current(within(t))
				switch {
				case readErr != nil:
					t.Fatal(readErr)
				case now.Revision == v.Revision && err != nil:
					rejected++
					inForce(t, open(t, c.Addr), v.Revision, before)
				case now.Revision > v.Revision && (err == nil || strings.Contains(err.Error(), "it is unknown whether")):
					applied++
					inForce(t, open(t, c.Addr), now.Revision, text)
				default:
					t.Errorf("cut at call %d (after it: %v): revision %d after %d, and the writer got %v", at, after, now.Revision, v.Revision, err)
				}
			})
		}
	}
	if applied == 0 || rejected == 0 {
		t.Errorf("%d applied and %d not: one kind was not tried", applied, rejected)
	}
	last := apply(t, s, document(1), by("end"))
	fatal.If(t, s.Clean(within(t)))
	versions, err := s.History(within(t))
	if most := 3 + tried + applied; err != nil || len(versions) != most || versions[0].Revision != last.Revision {
		t.Fatalf("%d versions of %d (%v)", len(versions), most, err)
	}
	used := map[string]bool{}
	for _, v := range versions {
		for _, chunk := range v.Chunks {
			used[s.chunkKey(chunk)] = true
		}
	}
	for _, key := range s.keys(t) {
		if strings.HasPrefix(key, s.chunkKey("")) && !used[key] {
			t.Errorf("%s is left over", key)
		}
	}
}

// A rejection of Consul is reported with its reason, and what to do.
func TestRejected(t *testing.T) {
	secured := consultest.StartDatacenter(t, consultest.Config{Dir: proc.LogDir(t), ACL: true})
	const read, chunks = `key_prefix "weir/rules/" { policy = "read" }`, `key_prefix "weir/rules/chunks/" { policy = "write" }`
	for _, rights := range []string{read, read + chunks} {
		t.Setenv("CONSUL_HTTP_TOKEN", secured.NewToken(rights))
		_, err := open(t, secured.Servers[0].Addr).Apply(within(t), parsed(t, document(1)), by("begin"))
		if r := new(consul.RejectedError); !errors.As(err, &r) || r.Code != http.StatusForbidden || !strings.Contains(err.Error(), "give a token that may write") || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("with %s: %v", rights, err)
		}
	}
}
