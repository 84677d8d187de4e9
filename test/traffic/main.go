// Traffic sends ten minutes of requests of several clients to a PoP on this machine: `make run DEMO=1`. It prints what
// it sends, what to expect and why, and each minute what was answered.
//
//	.tools/traffic 127.0.0.1:10000
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stream is what one group of clients sends.
type stream struct {
	name, method, path string
	expect             string // what to expect, and why
	first, clients     int    // the addresses: 127.0.0.first and the next ones, in turn
	every              time.Duration
	user, tier         string        // of the headers x-user-id and x-tier
	delay, slow        time.Duration // how long the upstream takes in the first half of a minute, and in the second

	admitted, rejected, failed atomic.Int64 // since the last report; failed: no answer, or another one
}

// streams are about 50 requests per second.
func streams() []*stream {
	return []*stream{
		{name: "crawler", method: "GET", path: "/", first: 7, clients: 1, every: time.Second / 15,
			expect: "900 requests per minute of 127.0.0.7. The rule client admits 600 per minute; trial would admit 60."},
		{name: "visitors", method: "GET", path: "/", first: 8, clients: 12, every: time.Second / 4,
			expect: "20 requests per minute of each of 12 addresses. No rule rejects them."},
		{name: "password guesses", method: "POST", path: "/login", first: 66, clients: 1, every: 2 * time.Second,
			expect: "30 logins per minute of 127.0.0.66. The rule login admits 5 per minute."},
		{name: "user ben", method: "GET", path: "/v1/orders", first: 21, clients: 1, every: time.Second / 5, user: "ben",
			expect: "300 requests per minute. The rule api admits 100 per minute and user."},
		{name: "user ann, gold", method: "GET", path: "/v1/orders", first: 22, clients: 1, every: time.Second / 5, user: "ann", tier: "gold",
			expect: "300 requests per minute. The override for gold users admits 1000 per minute."},
		{name: "uploads", method: "POST", path: "/upload/photo", first: 31, clients: 1, every: time.Second, delay: 4 * time.Second,
			expect: "An upload per second, each for 4 s. The rule upload admits two at a time."},
		{name: "checkouts", method: "POST", path: "/shop/checkout", first: 40, clients: 20, every: time.Second / 3, slow: 2 * time.Second,
			expect: "In the second half of each minute the shop takes 2 s per request. The rule overload rejects no checkouts."},
		{name: "shop", method: "GET", path: "/shop/items", first: 40, clients: 20, every: time.Second / 7, slow: 2 * time.Second,
			expect: "While the shop is slow, overload rejects some of these requests."},
		{name: "exports", method: "GET", path: "/shop/export/orders", first: 80, clients: 6, every: time.Second / 6, slow: 2 * time.Second,
			expect: "While the shop is slow, overload rejects exports first, most of them."},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Join(os.Args[1:], " "), 10, time.Minute, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

// run sends the streams to pop until ctx is done or all reports are printed, each of what was answered since the one before.
func run(ctx context.Context, pop string, reports int, between time.Duration, out io.Writer) error {
	if addr, err := netip.ParseAddrPort(pop); err != nil || !addr.Addr().IsLoopback() {
		return fmt.Errorf("%q: traffic goes to an address of this machine only, such as 127.0.0.1:10000", pop)
	}
	all := streams()
	fmt.Fprintf(out, "\nTraffic for %v, which the dashboard and `bin/weir top` show:\n", time.Duration(reports)*between)
	for _, s := range all {
		fmt.Fprintf(out, "  %-17s %-4s %s\n%20s%s\n", s.name, s.method, s.path, "", s.expect)
	}
	fmt.Fprintln(out, "A minute across two clock minutes may have more than the limit: docs/rules.md#algorithms.")
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, s := range all {
		running.Go(func() { s.send(ctx, pop) })
	}
	ticks := time.Tick(between)
	for n := range reports {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		fmt.Fprintf(out, "\nAnswered in minute %d of %d:\n", n+1, reports)
		for _, s := range all {
			fmt.Fprintf(out, "  %-17s %4d admitted, %4d rejected, %d failed\n", s.name, s.admitted.Swap(0), s.rejected.Swap(0), s.failed.Swap(0))
		}
	}
	fmt.Fprintln(out, "\nThe traffic has ended. Start again for more.")
	return nil
}

// send sends the requests of a stream, however long earlier ones take, and waits for the last answers when ctx ends.
func (s *stream) send(ctx context.Context, pop string) {
	clients := make([]*http.Client, s.clients)
	for i := range clients {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(s.first+i))}}
		clients[i] = &http.Client{Transport: &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: 4}, Timeout: 10 * time.Second}
	}
	due := time.Tick(s.every)
	var open sync.WaitGroup
	defer open.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-due:
			open.Go(func() {
				switch s.request(ctx, clients[n%len(clients)], "http://"+pop+s.path) {
				case http.StatusOK:
					s.admitted.Add(1)
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
					s.rejected.Add(1)
				default:
					s.failed.Add(1)
				}
			})
		}
	}
}

// request sends one, and returns the status of the answer; 0: none.
func (s *stream) request(ctx context.Context, client *http.Client, url string) int {
	req, err := http.NewRequestWithContext(ctx, s.method, url, http.NoBody)
	if err != nil {
		return 0
	}
	delay := s.delay
	if time.Now().Second() >= 30 {
		delay = max(s.slow, delay)
	}
	for name, value := range map[string]string{"x-user-id": s.user, "x-tier": s.tier, "x-envoy-fault-delay-request": fmt.Sprint(delay.Milliseconds())} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // or the connection is not used again
	return resp.StatusCode
}
