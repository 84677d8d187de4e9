//go:build linux

package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/region"
)

const (
	callers = 4   // who count at once, as the workers of a PoP do
	perCall = 250 // keys
)

// count has a program count one unit for each of so many keys, which are those of package drive.
func (b *bench) count(addr, scope string, keys int) error {
	client := &http.Client{Transport: new(http.Transport), Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	of := map[string]string{"global": "eu"}[scope]
	var next atomic.Int64
	errs := make([]error, callers)
	b.Together(callers, func(i int) {
		worker := region.NewWorker(client, addr, of, []byte("release-000000-0"), uint64(i+1))
		for from := next.Add(perCall) - perCall; from < int64(keys) && errs[i] == nil; from = next.Add(perCall) - perCall {
			errs[i] = countSome(b.Ctx, worker, from)
		}
	})
	return errors.Join(errs...)
}

// countSome makes one call for keys from this number on, all of which are granted.
func countSome(ctx context.Context, worker *region.Worker, from int64) error {
	var wants []*quotav1.Want
	for i := range int64(perCall) {
		wants = append(wants, region.Single("each", fmt.Appendf(nil, "user-%08d", from+i)))
	}
	grants, err := worker.Acquire(ctx, 10*time.Second, wants...)
	for i, g := range grants {
		if g.GetStatus() != quotav1.Status_STATUS_OK {
			return fmt.Errorf("key %d: %v", from+int64(i), g.GetStatus())
		}
	}
	return err
}
