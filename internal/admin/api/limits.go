package api

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// perSecond and burst bound the calls of one caller.
	perSecond, burst = 50, 200
	// maxCalls and maxCallsEach bound the calls in flight of all callers, and of one: an answer may have 8 MiB of
	// rules, and its reader may be slow.
	maxCalls, maxCallsEach = 24, 8
	// maxStreams and maxStreamsEach bound the streams of all callers, and of one.
	maxStreams, maxStreamsEach = 100, 10
)

// use is what one caller uses.
type use struct {
	rate    limit.State
	calls   int // in flight
	streams int // likewise
}

// limits bound what callers can take of the process. There are as many callers as the file of tokens has names.
type limits struct {
	rate *limit.Limit

	mu      sync.Mutex
	callers map[string]*use
	calls   int // in flight
	streams int // likewise
}

func newLimits() *limits {
	rate, err := limit.New(limit.Spec{Algorithm: limit.TokenBucket, Count: perSecond, Period: limit.Second, Burst: burst})
	if err != nil {
		panic(err) // of constants
	}
	return &limits{rate: rate, callers: map[string]*use{}}
}

// enter admits a call, which leaves when it ends, or states why not.
func (l *limits) enter(caller string, stream bool, now time.Time) (leave func(), p *v1.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.callers[caller]
	if u == nil {
		u = new(use)
		l.callers[caller] = u
	}
	d := l.rate.Decide(&u.rate, limit.Micros(now.UnixMicro()), limit.Ask{Need: 1, Waiting: 1, Want: 1})
	switch {
	case d.Granted == 0:
		return nil, tooMany(d.RetryAfter, fmt.Sprintf("%s calls more often than %d times a second", caller, perSecond))
	case !stream && u.calls >= maxCallsEach:
		return nil, tooMany(limit.Second, fmt.Sprintf("%s has %d calls in flight", caller, maxCallsEach))
	case !stream && l.calls >= maxCalls:
		return nil, tooMany(limit.Second, fmt.Sprintf("%d calls are in flight", maxCalls))
	case stream && u.streams >= maxStreamsEach:
		return nil, tooMany(limit.Minute, fmt.Sprintf("%s has %d streams; close one", caller, maxStreamsEach))
	case stream && l.streams >= maxStreams:
		return nil, tooMany(limit.Minute, fmt.Sprintf("there are %d streams; close one", maxStreams))
	}
	count := func(by int) {
		if stream {
			u.streams, l.streams = u.streams+by, l.streams+by
		} else {
			u.calls, l.calls = u.calls+by, l.calls+by
		}
	}
	count(1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		count(-1)
	}, nil
}

func tooMany(wait limit.Micros, detail string) *v1.Problem {
	seconds := (wait + limit.Second - 1) / limit.Second
	return v1.NewProblem(http.StatusTooManyRequests, v1.CodeTooMany, detail).With("Retry-After", strconv.FormatInt(int64(max(seconds, 1)), 10))
}
