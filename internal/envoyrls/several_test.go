package envoyrls

import (
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// A counter that a request names several times is charged all of it or nothing, and each descriptor
// gets the answer that it would get after those before it, by its own limit; through a lease cache as
// without one. A check is over when nothing is left, unless the request was granted the last units.
func TestSeveralOfOneCounter(t *testing.T) {
	five := func(value string) *ratelimitpb.RateLimitDescriptor { return of("five", value) }
	bothWays(t, steps{
		{request(five("a"), five("a")), "OK: OK 4, OK 3"},
		{hits(2, request(five("a"), five("a"))), "OVER: OK 3, OVER 0"},
		{request(five("a"), costing(0, five("a")), five("a")), "OK: OK 2, OK 2, OK 1"},
		{request(five("a"), of("hundred", "a"), five("a")), "OVER: OK 1, OK 100, OVER 0"},
		{request(costing(0, five("a")), five("a")), "OK: OK 1, OK 0"},
		{request(costing(0, five("a")), five("a")), "OVER: OVER 0, OVER 0"},
		{request(five("b"), perDay(12, five("b"))), "OK: OK 4, OK 10"},
		{request(costing(0, five("b")), costing(5, perDay(12, five("b")))), "OK: OK 3, OK 5"},
		{request(perDay(12, five("b")), five("b")), "OVER: OK 5, OVER 0"},
		{request(costing(3, perDay(12, five("b"))), of("hundred", "b")), "OK: OK 2, OK 99"},
		{request(costing(0, five("b")), five("b")), "OVER: OVER 0, OVER 0"},
		{request(perDay(2, five("c")), five("c"), perDay(3, five("c"))), "OK: OK 1, OK 3, OK 0"},
	})
}

// Descriptors of one counter that are judged one by one are judged in their order, however far the store is.
func TestSeveralInOrder(t *testing.T) {
	bothWays(t, steps{
		{request(of("quota", "a"), of("quota", "a")), "OK: OK 4, OK 3"},
		{request(of("try", "a"), costing(2, of("try", "a")), of("try", "a")), "OK: OK 4, OK 2, OK 1"},
		{request(perDay(12, of("quota", "b")), of("quota", "b")), "OK: OK 11, OK 3"},
		{request(costing(4, of("quota", "c")), perDay(2, of("quota", "c"))), "OK: OK 1, OVER 0"},
		{request(perDay(2, of("quota", "d")), costing(4, of("quota", "d")), of("quota", "d")), "OK: OK 1, OK 0, OVER 0"},
		{request(of("quota", "c"), of("quota", "c")), "OK: OK 0, OVER 0"},
		{request(costing(6, of("quota", "e")), of("quota", "e"), perDay(10, of("quota", "e"))), "OK: OVER 0, OVER 0, OK 2"},
	})
}

// Where denials are charged a check is judged in its place too, by its own limit.
func TestSeveralInOrderWhereDenialsAreCharged(t *testing.T) {
	bothWays(t, steps{
		{request(costing(3, of("five", "a")), costing(3, of("five", "a")), of("five", "a")), "OVER: OK 2, OVER 0, OVER 0"},
		{request(costing(0, of("hundred", "b")), costing(6, perDay(3, of("hundred", "b"))), costing(0, of("hundred", "b"))), "OVER: OK 100, OVER 0, OK 94"},
		{request(costing(2, of("quota", "c")), costing(9, perDay(2, of("quota", "c"))), of("quota", "c")), "OK: OK 3, OVER 0, OK 0"},
		{request(costing(5, of("five", "d")), costing(0, of("five", "d"))), "OK: OK 0, OK 0"},
		{request(costing(0, of("five", "d")), of("five", "d"), costing(0, of("five", "d"))), "OVER: OVER 0, OVER 0, OVER 0"},
	}, charging)
}

// Of a request that costs nothing each descriptor is answered all that was left: what
// others of its counter were granted comes back, and a check before them is none of these.
func TestSeveralOfADeniedRequest(t *testing.T) {
	bothWays(t, steps{
		{request(of("one", "a")), "OK: OK 0"},
		{request(of("quota", "a")), "OK: OK 4"},
		{request(costing(0, of("quota", "a")), of("quota", "a"), of("quota", "a"), of("one", "a")), "OVER: OK 4, OK 4, OK 4, OVER 0"},
		{request(costing(0, of("quota", "a")), costing(9, of("quota", "a")), of("quota", "a"), of("one", "a")), "OVER: OK 4, OVER 0, OVER 0, OVER 0"},
		{request(costing(4, of("five", "a")), of("five", "a"), costing(0, of("five", "a")), perDay(0, of("none", "a"))), "OVER: OK 5, OK 5, OK 5, OVER 0"},
		{request(costing(9, of("dozen", "a"))), "OK: OK 3"},
		{request(perDay(6, of("dozen", "a")), of("dozen", "a")), "OVER: OVER 0, OK 3"},
	})
}
