package service_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// perAddress is the default of MaxHoldersPerAddress.
const perAddress = 128

// invented is a call of the n-th of made-up holders.
func invented(n uint64) *wire.Request {
	return &wire.Request{Protocol: 1, Holder: binary.BigEndian.AppendUint64([]byte("invented"), n), Seq: 1, Wants: []wire.Want{{Rule: "page"}}}
}

// Whoever makes up holders neither makes the shares of the others small nor keeps them out: an
// address has so many, with TLS one certificate at it.
func TestHoldersOfOneAddressAreBounded(t *testing.T) {
	var log proc.Lines
	r := newRegion(t, logged(&log))
	accepted := func(addr, certificate string, first uint64) (n int) {
		for i := range uint64(2000) {
			out, rejected := r.from(addr, certificate, invented(first+i))
			if out != nil {
				n++
			} else if !strings.Contains(rejected, "resource_exhausted") || !strings.Contains(rejected, "max_holders_per_address") {
				t.Fatalf("rejected: %s", rejected)
			}
		}
		return n
	}
	if n := accepted("192.0.2.7:1", "", 0); n != perAddress {
		t.Errorf("2,000 ids of one address: %d holders", n)
	}
	measure.Has(t, r.metrics.Handler(), "weir_holders_rejected_total 1872")
	if len(log.With()) != 1 || len(log.With("from=192.0.2.7:1")) != 1 {
		t.Errorf("logged: %q, want one line with the address", log.With())
	}
	if out, rejected := r.from("192.0.2.8:1", "", r.call()); out == nil || out.Holders != perAddress+1 {
		t.Errorf("a PoP at another address: %+v %s", out, rejected)
	}
	for i, c := range []struct {
		what, addr, certificate string
		want                    int
	}{
		{"another port", "192.0.2.7:2", "", 0},
		{"the same, of IPv6", "[::ffff:192.0.2.7]:2", "", 0},
		{"a network of IPv6", "[2001:db8::1]:1", "", 128},
		{"another address of that network", "[2001:db8::2]:1", "", 0},
		{"one certificate", "192.0.2.7:1", "a", 128},
		{"another certificate", "192.0.2.7:1", "b", 128},
		{"no address", "", "", 128},
	} {
		if n := accepted(c.addr, c.certificate, uint64(i+1)*10_000); n != c.want {
			t.Errorf("%s: %d holders, want %d", c.what, n, c.want)
		}
	}
	r.advance(11 * limit.Second)
	if n := accepted("192.0.2.7:1", "", 200_000); n != perAddress {
		t.Errorf("2,000 new ids when those before are silent: %d holders", n)
	}
}

// One address has at most a quarter of the memory for callers.
func TestWorkersOfOneAddressAreBounded(t *testing.T) {
	r := newRegion(t, func(c *service.Config) { c.MaxHolders = 4000 })
	for n := range uint64(100) {
		for worker := range uint64(100) {
			q := invented(n)
			q.Worker = worker + 1
			if out, rejected := r.from("192.0.2.7:1", "", q); out == nil || out.Grants[0].Status != lease.OK {
				t.Fatalf("holder %d, worker %d: %+v %s", n, worker, out, rejected)
			}
		}
	}
	free := 0
	for n := range uint64(4000) {
		if out, _ := r.from(fmt.Sprintf("10.0.%d.%d:1", n>>8, n&255), "", invented(1000+n)); out != nil {
			free++
		}
	}
	if free != 4000-1000-90 { // a holder has one worker at least: the first ten have filled the quarter
		t.Errorf("room for %d others, want 2910 of 4000", free)
	}
}
