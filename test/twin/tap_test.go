package twin

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// charge is what envoyproxy/ratelimit added to a counter.
type charge struct {
	key  string
	hits uint64
}

// tap reads what envoyproxy/ratelimit charges from MONITOR of its Redis. The commands of one request come on one
// connection, in the order of its descriptors.
type tap struct {
	redis *redistest.Server

	mu      sync.Mutex
	lines   *bufio.Scanner
	asked   int // how often taken was called
	charges []charge
}

func newTap(t testing.TB, redis *redistest.Server) *tap {
	t.Helper()
	conn := fatal.Get(net.Dial("tcp", redis.Addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_, err := fmt.Fprint(conn, "MONITOR\r\n")
	fatal.If(t, err)
	p := &tap{redis: redis, lines: bufio.NewScanner(conn)}
	if !p.lines.Scan() || p.lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q, %v", p.lines.Text(), p.lines.Err())
	}
	return p
}

// taken is what was charged to counters of a domain since it was last asked. It reads up to a command of its own.
func (p *tap) taken(t testing.TB, domain string) (of []charge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	mark := fmt.Sprint("mark-", p.asked)
	p.redis.Do("ECHO", mark)
	for words := []string(nil); len(words) < 5 || unquoted(words[4]) != mark; words = strings.Fields(p.lines.Text()) {
		if len(words) == 6 && strings.EqualFold(unquoted(words[3]), "INCRBY") {
			hits, _ := strconv.ParseUint(unquoted(words[5]), 10, 64)
			p.charges = append(p.charges, charge{unquoted(words[4]), hits})
		}
		if !p.lines.Scan() {
			t.Fatalf("MONITOR: %v", p.lines.Err())
		}
	}
	p.charges = slices.DeleteFunc(p.charges, func(c charge) bool {
		if strings.HasPrefix(c.key, domain+"_") {
			of = append(of, c)
			return true
		}
		return false
	})
	return of
}

// unquoted is a word of a line such as `+1792232761.1 [0 127.0.0.1:5000] "INCRBY" "key" "3"`; empty: it has no quotes.
func unquoted(word string) string {
	text, _ := strconv.Unquote(word)
	return text
}
