package api

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// perSecond and burst bound the calls of one caller.
	perSecond, burst = 50, 200
	// maxCalls and maxCallsEach bound the calls in flight of all callers of a role, and of one: an answer may have 8 MiB
	// of rules, and its reader may be slow.
	maxCalls, maxCallsEach = 24, 8
	// maxStreams and maxStreamsEach bound the streams of all callers of a role, and of one.
	maxStreams, maxStreamsEach = 100, 10
)

// use is what one caller uses, or all of a role together.
type use struct {
	rate           limit.State
	calls, streams int // in flight
}

// limits bound what callers can take of the process. There are as many callers as the file of tokens has names.
type limits struct {
	rate *limit.Limit

	mu      sync.Mutex
	callers map[string]*use
	roles   [access.Admin + 1]use // so that viewers take nothing of those who have to change something
}

func newLimits() *limits {
	rate, err := limit.New(limit.Spec{Algorithm: limit.TokenBucket, Count: perSecond, Period: limit.Second, Burst: burst})
	if err != nil {
		panic(err) // of constants
	}
	return &limits{rate: rate, callers: map[string]*use{}}
}

// enter admits a call, which leaves when it ends, or states why not.
func (l *limits) enter(caller access.Caller, stream bool, now time.Time) (leave func(), p *v1.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, all := l.callers[caller.Name], &l.roles[caller.Role]
	if u == nil {
		u = new(use)
		l.callers[caller.Name] = u
	}
	d := l.rate.Decide(&u.rate, limit.Micros(now.UnixMicro()), limit.Ask{Need: 1, Waiting: 1, Want: 1})
	if d.Granted == 0 {
		return nil, tooMany(d.RetryAfter, fmt.Sprintf("%s calls more often than %d times a second", caller.Name, perSecond))
	}
	what, wait, own, together, mostOwn, mostAll := "calls in flight", limit.Second, &u.calls, &all.calls, maxCallsEach, maxCalls
	if stream {
		what, wait, own, together, mostOwn, mostAll = "streams; close one", limit.Minute, &u.streams, &all.streams, maxStreamsEach, maxStreams
	}
	switch {
	case *own >= mostOwn:
		return nil, tooMany(wait, fmt.Sprintf("%s has %d %s", caller.Name, mostOwn, what))
	case *together >= mostAll:
		return nil, tooMany(wait, fmt.Sprintf("all callers with the role %s have %d %s", caller.Role, mostAll, what))
	}
	*own, *together = *own+1, *together+1
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		*own, *together = *own-1, *together-1
	}, nil
}

func tooMany(wait limit.Micros, detail string) *v1.Problem {
	seconds := (wait + limit.Second - 1) / limit.Second
	return v1.NewProblem(http.StatusTooManyRequests, v1.CodeTooMany, detail).With("Retry-After", strconv.FormatInt(int64(max(seconds, 1)), 10))
}
