package rls

import (
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// A counter that a request names several times is charged all of it or nothing, and each is
// told what it would be after those before it, by its own limit; through a lease cache as
// without one.
func TestSeveralOfOneCounter(t *testing.T) {
	five := func(value string) *ratelimitpb.RateLimitDescriptor { return of("five", value) }
	list := func() steps {
		return steps{
			{request(five("a"), five("a")), "OK: OK 4, OK 3"},
			{hits(2, request(five("a"), five("a"))), "OVER: OK 3, OVER 0"},
			{request(five("a"), costing(0, five("a")), five("a")), "OK: OK 2, OK 2, OK 1"},
			{request(five("a"), of("hundred", "a"), five("a")), "OVER: OK 1, OK 100, OVER 0"},
			{request(costing(0, five("a")), five("a")), "OK: OK 1, OK 0"},
			{request(costing(0, five("a")), five("a")), "OVER: OK 0, OVER 0"},
			{request(five("b"), perDay(12, five("b"))), "OK: OK 4, OK 10"},
			{request(costing(0, five("b")), costing(5, perDay(12, five("b")))), "OK: OK 3, OK 5"},
			{request(perDay(12, five("b")), five("b")), "OVER: OK 5, OVER 0"},
			{request(costing(3, perDay(12, five("b"))), of("hundred", "b")), "OK: OK 2, OK 99"},
			{request(costing(0, five("b")), five("b")), "OVER: OVER 0, OVER 0"},
			{request(perDay(2, five("c")), five("c"), perDay(3, five("c"))), "OK: OK 1, OK 3, OK 0"},
		}
	}
	for name, mode := range map[string]func(*Config){"leased": leased, "exact": exactly} {
		t.Run(name, func(t *testing.T) { trace(t, list, mode) })
	}
}
