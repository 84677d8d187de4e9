package dashboard

import (
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/test/kit/proc"
)

// What happened before a page is opened is on it: how many requests were rejected, and whom a trial would have hit. What a rule did
// on trial is not on the page of an enforced one.
func TestHistory(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann", "bob")
	proc.Eventually(t, time.Minute, "the region has rejections in its history", func() bool {
		var h v1.History
		s.answer("/v1/history?span=1h", &h)
		for _, r := range h.Rules {
			if r.Rule == "orders" && r.Denied[len(r.Denied)-1] > 0 {
				return true
			}
		}
		return false
	})
	s.Open("/")
	s.See("of requests rejected in the last hour, mostly by orders")
	s.Click("15 min")
	s.See("of requests rejected in the last 15 minutes, mostly by orders")
	s.Open("/#/rule/trial")
	s.See("Whom the trial trial would hit")
	s.See("In the last hour it would have rejected")
	s.Open("/#/rule/orders")
	s.See("· enforced ·")
	s.Lose("would hit")
	s.well("the past")
}
