package edge

import "github.com/weirlimit/weir/internal/lease"

func (w *Worker) holdHere(now lease.Millis, hd *holding, cost int64) lease.Verdict {
	return lease.Refuse
}
