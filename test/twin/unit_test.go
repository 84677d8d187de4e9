package twin

import (
	"slices"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// unit is the length of a window, as a configuration, a request and a response name it.
// All windows are counted from 1970.
type unit struct {
	name     string
	request  typepb.RateLimitUnit
	response rlspb.RateLimitResponse_RateLimit_Unit
	length   time.Duration
}

// units are those whose windows a scenario does not outlast. When a year begins, which is every 365 days, windows of both
// begin together, for which envoyproxy/ratelimit has one counter: nothing is played in the hours around it.
var units = []unit{
	{"hour", typepb.RateLimitUnit_HOUR, rlspb.RateLimitResponse_RateLimit_HOUR, time.Hour},
	{"year", typepb.RateLimitUnit_YEAR, rlspb.RateLimitResponse_RateLimit_YEAR, 365 * 24 * time.Hour},
}

// yearBegins reports whether a window of a year begins in this hour or the next.
func yearBegins() bool {
	const hour, year = 3600, 365 * 86_400
	since := time.Now().Unix() % year
	return since < hour || since > year-2*hour
}

func lengthOf(l *rlspb.RateLimitResponse_RateLimit) time.Duration {
	i := slices.IndexFunc(units, func(u unit) bool { return u.response == l.Unit })
	return units[max(i, 0)].length
}
