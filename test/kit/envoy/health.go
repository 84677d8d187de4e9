package envoy

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// AwaitHealthy waits until all replicas of the region pass the health checks of the Envoy with this admin
// endpoint. Requests do not tell: where no replica passes, Envoy calls all of them.
func AwaitHealthy(t proc.T, admin string) {
	t.Helper()
	proc.Await(t, 30*time.Second, "all replicas pass the health checks of the PoP", func() string {
		m, err := measure.Scrape(t.Context(), &client, "http://"+admin+"/stats/prometheus")
		if err != nil {
			return err.Error()
		}
		of := func(stat string) float64 { return m["envoy_cluster_"+stat+`{envoy_cluster_name="weir_region"}`] }
		all, healthy, passed := of("membership_total"), of("membership_healthy"), of("health_check_success")
		if all == 0 || healthy != all || passed == 0 {
			return fmt.Sprintf("%v of %v replicas are healthy, %v health checks passed", healthy, all, passed)
		}
		return ""
	})
}
