package region

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
)

// Worker calls a program as one worker of a PoP does: one call after the other.
type Worker struct {
	client  quotav1connect.QuotaServiceClient
	request quotav1.AcquireRequest
}

// NewWorker is a worker with this number, of the PoP whose ID is holder: 16 bytes. region is "" but for calls of an aggregator.
func NewWorker(client *http.Client, addr, region string, holder []byte, number uint64) *Worker {
	w := &Worker{client: quotav1connect.NewQuotaServiceClient(client, "http://"+addr)}
	w.request.Protocol, w.request.Region, w.request.Holder, w.request.Worker = 1, region, holder, number
	return w
}

// Acquire makes a call with these wants, and allows the program so long for it. It returns a grant for each.
func (w *Worker) Acquire(ctx context.Context, within time.Duration, wants ...*quotav1.Want) ([]*quotav1.Grant, error) {
	w.request.Seq++
	w.request.Wants = wants
	req := connect.NewRequest(&w.request)
	req.Header().Set("Connect-Timeout-Ms", strconv.FormatInt(within.Milliseconds(), 10))
	resp, err := w.client.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	if grants := resp.Msg.GetGrants(); len(grants) == len(wants) {
		return grants, nil
	}
	return nil, fmt.Errorf("%d grants for %d wants", len(resp.Msg.GetGrants()), len(wants))
}

// Single is a want of one unit for a request that waits.
func Single(rule string, key []byte) *quotav1.Want {
	return &quotav1.Want{Rule: rule, Key: key, Need: 1, Waiting: 1, Want: 1}
}
