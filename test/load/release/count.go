//go:build linux

package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/page"
)

const (
	callers = 4   // who count at once, as the workers of a PoP do
	perCall = 250 // keys
)

// count has a program count one unit for each of so many keys, which are those of package drive.
func (b *bench) count(addr, scope string, keys int) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	errs := make([]error, callers)
	b.Together(callers, func(i int) {
		q := wire.Request{Protocol: 1, Holder: []byte("release-000000-0"), Worker: uint64(i + 1)}
		if scope == "global" {
			q.Region = "eu"
		}
		for from := next.Add(perCall) - perCall; from < int64(keys) && errs[i] == nil; from = next.Add(perCall) - perCall {
			q.Seq++
			errs[i] = countSome(b.Ctx, client, addr, q, from)
		}
	})
	return errors.Join(errs...)
}

// countSome makes one call for keys from this number on, all of which are granted.
func countSome(ctx context.Context, client *http.Client, addr string, q wire.Request, from int64) error {
	for i := range int64(perCall) {
		q.Wants = append(q.Wants, wire.Want{Rule: "each", Key: fmt.Appendf(nil, "user-%08d", from+i), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}})
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+quotav1connect.QuotaServiceAcquireProcedure, bytes.NewReader(q.Append(nil)))
	if err != nil {
		return err
	}
	call.Header.Set("Content-Type", "application/proto")
	call.Header.Set("Connect-Timeout-Ms", "10000")
	resp, body, err := page.Do(client, call)
	if err != nil {
		return err
	}
	var answer wire.Response
	if err := answer.Decode(body); err != nil || len(answer.Grants) != perCall {
		return fmt.Errorf("%s instead of %d grants: %.100q", resp.Status, perCall, body)
	}
	for i, g := range answer.Grants {
		if g.Status != lease.OK {
			return fmt.Errorf("key %d: %v", from+int64(i), g.Status)
		}
	}
	return nil
}
