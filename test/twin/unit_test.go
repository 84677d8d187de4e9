package twin

import (
	"slices"
	"testing"
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

const day = 24 * time.Hour

// units are those whose windows a scenario does not outlast: the hour, beside which a
// scenario has one of the others.
var units = []unit{
	{"hour", typepb.RateLimitUnit_HOUR, rlspb.RateLimitResponse_RateLimit_HOUR, time.Hour},
	{"day", typepb.RateLimitUnit_DAY, rlspb.RateLimitResponse_RateLimit_DAY, day},
	{"month", typepb.RateLimitUnit_MONTH, rlspb.RateLimitResponse_RateLimit_MONTH, 30 * day},
	{"year", typepb.RateLimitUnit_YEAR, rlspb.RateLimitResponse_RateLimit_YEAR, 365 * day},
}

// longUnit is the unit beside the hour: in this hour and the next one, no window of it
// begins with one of an hour. envoyproxy/ratelimit has one counter for two such windows.
// Two hours in 2,190 days have no such unit, the next ones in December 2029: the year
// stands in.
func longUnit(now time.Time) unit {
	for _, u := range units[1:] {
		seconds := int64(u.length / time.Second)
		since := time.Duration(now.Unix()%seconds) * time.Second
		if since >= time.Hour && since < u.length-time.Hour {
			return u
		}
	}
	return units[len(units)-1]
}

func TestLongUnit(t *testing.T) {
	month := time.Unix(int64(30*day/time.Second)*700, 0).UTC() // one begins
	for _, tt := range []struct {
		now  time.Time
		want string
	}{
		{time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), "day"},
		{time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC), "day"},
		{time.Date(2026, 11, 24, 0, 59, 59, 0, time.UTC), "month"},
		{time.Date(2026, 11, 24, 22, 59, 59, 0, time.UTC), "day"},
		{time.Date(2026, 11, 24, 23, 0, 0, 0, time.UTC), "month"},
		{month.Add(-time.Minute), "year"},
		{month, "year"},
		{month.Add(time.Hour), "day"},
	} {
		if got := longUnit(tt.now); got.name != tt.want {
			t.Errorf("%v: %s, want %s", tt.now, got.name, tt.want)
		}
	}
}

// lengthOf is the length of the window of a limit in a response.
func lengthOf(l *rlspb.RateLimitResponse_RateLimit) time.Duration {
	i := slices.IndexFunc(units, func(u unit) bool { return u.response == l.Unit })
	return units[max(i, 0)].length
}
