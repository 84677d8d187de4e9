package quotav1_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
)

// startRegion serves QuotaService as weir-regional does, with counters in memory.
func startRegion() *httptest.Server {
	rules, err := rulefile.Parse("rules.yaml", []byte("rules: [{ name: jobs, key: [{ header: x-tenant }], limit: 1000/1h, algorithm: fixed_window }]"))
	if err != nil {
		log.Fatal(err)
	}
	s := service.NewService(service.Config{Store: memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20})})
	if err := s.SetRules(rules); err != nil {
		log.Fatal(err)
	}
	return httptest.NewServer(service.NewHandler(s, nil))
}

// A service takes a lease of 10 units of its tenant's limit, uses 7, and returns the other 3 before the lease ends.
func Example() {
	server := startRegion()
	defer server.Close()

	holder := make([]byte, 16) // the name of this process
	_, _ = rand.Read(holder)   // never returns an error
	region := quotav1connect.NewQuotaServiceClient(http.DefaultClient, server.URL)
	acquire := func(seq uint64, want *quotav1.Want) *quotav1.Grant {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		answer, err := region.Acquire(ctx, connect.NewRequest(&quotav1.AcquireRequest{
			Protocol: 1, Holder: holder, Seq: seq, Ack: seq - 1, Wants: []*quotav1.Want{want},
		}))
		if err != nil { // do not repeat the call: decide as on_failure of the rule states
			return &quotav1.Grant{Status: quotav1.Status_STATUS_UNAVAILABLE}
		}
		return answer.Msg.GetGrants()[0]
	}

	lease := acquire(1, &quotav1.Want{Rule: "jobs", Key: []byte("acme"), Need: 1, Waiting: 1, Want: 10})
	fmt.Println(lease.GetStatus(), lease.GetGranted(), "granted,", lease.GetRemaining(), "remaining")

	used := uint64(7)
	back := acquire(2, &quotav1.Want{Rule: "jobs", Key: []byte("acme"), Unused: lease.GetGranted() - used, Lease: lease.GetLease()})
	fmt.Println(back.GetStatus(), back.GetRemaining(), "remaining")
	// Output:
	// STATUS_OK 10 granted, 990 remaining
	// STATUS_OK 993 remaining
}
