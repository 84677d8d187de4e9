//go:build linux

package region

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/page"
)

// popFlood is what points of presence send to the QuotaService on one key: calls
// as fast as they are answered, most of them of a holder that is new.
type popFlood struct {
	name string
	rule string
	per  float64
}

var popFloods = []popFlood{
	{"PoPs on one key under its limit", "wide", hotLimit},
	{"PoPs on one key over its limit", "narrow", 10},
}

const (
	pops        = 16 // that call at once, per replica
	callsPerPoP = 4  // before another one takes its place
)

// send lets PoPs call all targets at once.
func (f *popFlood) send(ctx context.Context, targets []*service, d time.Duration) (sent, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pops}, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	end := time.Now().Add(d)
	results := make([]sent, pops*len(targets))
	var g errgroup.Group
	for i := range results {
		url := "http://" + targets[i/pops].quota + "/weir.quota.v1.QuotaService/Acquire"
		g.Go(func() error {
			for time.Now().Before(end) {
				if err := f.pop(ctx, client, url, &results[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return sent{}, fmt.Errorf("%s: %w", f.name, err)
	}
	all := sent{elapsed: d}
	for _, r := range results {
		all.done += r.done
		all.admitted += r.admitted
		all.refused += r.refused
		all.undecided += r.undecided
	}
	return all, nil
}

// pop makes a few calls of one holder.
func (f *popFlood) pop(ctx context.Context, client *http.Client, url string, seen *sent) error {
	holder := make([]byte, 16)
	if _, err := rand.Read(holder); err != nil {
		return err
	}
	for seq := range uint64(callsPerPoP) {
		request := &quotapb.AcquireRequest{Protocol: 1, Holder: holder, Seq: seq + 1, Ack: seq,
			Wants: []*quotapb.Want{{Rule: f.rule, Key: []byte("192.0.2.1"), Need: 1, Waiting: 2, Want: 3 << seq, Fresh: seq == 0}}}
		status, err := acquire(ctx, client, url, request)
		if err != nil {
			return err
		}
		seen.done++
		switch status {
		case quotapb.Status_STATUS_OK:
			seen.admitted++
		case quotapb.Status_STATUS_DENIED:
			seen.refused++
		default:
			seen.undecided++
		}
	}
	return nil
}

// acquire makes one call with one want. A region that has no room for
// another holder has denied it.
func acquire(ctx context.Context, client *http.Client, url string, request *quotapb.AcquireRequest) (quotapb.Status, error) {
	body, err := proto.Marshal(request)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/proto")
	req.Header.Set("Connect-Timeout-Ms", "1000")
	resp, body, err := page.Do(client, req)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return quotapb.Status_STATUS_DENIED, nil
	}
	response := &quotapb.AcquireResponse{}
	if err := proto.Unmarshal(body, response); err != nil || resp.StatusCode != http.StatusOK || len(response.GetGrants()) != 1 {
		return 0, fmt.Errorf("%s: %s: %.200q", url, resp.Status, body)
	}
	return response.GetGrants()[0].GetStatus(), nil
}
