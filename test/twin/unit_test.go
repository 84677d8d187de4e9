package twin

import (
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// yearBegins reports whether a window of a year begins in this hour or the next. When a year begins, which is every 365 days
// from 1970 on, windows of a year and of an hour begin together, for which envoyproxy/ratelimit has one counter.
func yearBegins() bool {
	const hour, year = 3600, 365 * 86_400
	since := time.Now().Unix() % year
	return since < hour || since > year-2*hour
}

// lengthOf is how long a window is: an hour or a year, which no scenario outlasts.
func lengthOf(l *rlspb.RateLimitResponse_RateLimit) time.Duration {
	if l.Unit == rlspb.RateLimitResponse_RateLimit_YEAR {
		return 365 * 24 * time.Hour
	}
	return time.Hour
}
