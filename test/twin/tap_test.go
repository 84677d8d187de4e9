package twin

import (
	"bufio"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// charge is what envoyproxy/ratelimit added to a counter.
type charge struct {
	key  string
	hits uint64
}

// tap stands between envoyproxy/ratelimit and its Redis and notes what is charged. A command is noted before Redis has
// it, so nothing is missing once a request is answered; those of one request come on one connection, in the order of
// its descriptors.
type tap struct {
	addr string

	mu      sync.Mutex
	charges []charge
}

func newTap(t testing.TB, redis string) *tap {
	t.Helper()
	l := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &tap{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed below
			}
			server, err := net.Dial("tcp", redis)
			if err != nil {
				client.Close()
				continue
			}
			closeBoth := func() { client.Close(); server.Close() }
			t.Cleanup(closeBoth)
			all.Go(func() { defer closeBoth(); _, _ = io.Copy(client, server) })
			all.Go(func() { defer closeBoth(); p.note(client, server) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return p
}

// note passes on what a client sends, until one of both leaves.
func (p *tap) note(client io.Reader, server io.Writer) {
	in := bufio.NewReader(client)
	for {
		raw, args, err := command(in)
		if err != nil {
			return
		}
		if len(args) == 3 && strings.EqualFold(args[0], "INCRBY") {
			hits, _ := strconv.ParseUint(args[2], 10, 64)
			p.mu.Lock()
			p.charges = append(p.charges, charge{args[1], hits})
			p.mu.Unlock()
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

// taken is what was charged to counters of a domain since it was last asked.
func (p *tap) taken(domain string) (of []charge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charges = slices.DeleteFunc(p.charges, func(c charge) bool {
		if strings.HasPrefix(c.key, domain+"_") {
			of = append(of, c)
			return true
		}
		return false
	})
	return of
}

// command reads a command as clients of Redis send it: "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".
func command(in *bufio.Reader) (raw []byte, args []string, err error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadBytes('\n')
		raw = append(raw, line...)
		if err != nil || len(line) < 3 || line[0] != kind {
			return 0, errors.Join(errors.New("no command of Redis"), err)
		}
		return strconv.Atoi(string(line[1 : len(line)-2]))
	}
	n, err := number('*')
	for range n {
		size, err := number('$')
		if err != nil {
			return nil, nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, nil, err
		}
		raw = append(raw, text...)
		args = append(args, string(text[:size]))
	}
	return raw, args, err
}
