//go:build linux

package shed

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	patience = time.Second // of a client
	keys     = 10_000
)

// class is how important a request is.
type class int

const (
	critical class = iota
	normal
	low
	bulk
	classes
)

func (c class) String() string { return [classes]string{"critical", "normal", "low", "bulk"}[c] }

// upTo is the part of the requests that are of a class or a more important one.
var upTo = [classes]float64{0.15, 0.60, 0.85, 1}

// outcome is what became of a request.
type outcome int

const (
	failed   outcome = iota // no answer in time, or another one
	served                  // 200 within the client's patience
	rejected                // 503
)

// sample is one request.
type sample struct {
	at    float64 // when it was due, in the scenario
	class class
	key   uint32
	outcome
	took time.Duration // from when it was due to its answer
	late time.Duration // from when it was due to its sending
}

// arrivals are the requests of a scenario: at random, and the same for each system.
func arrivals(s *scenario, p plan) (all []sample) {
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0.0; ; {
		if at += rng.ExpFloat64() / s.rate(at) * p.pace; at >= lasts {
			return all
		}
		a, kind := sample{at: at, key: rng.Uint32N(keys)}, rng.Float64()
		for kind >= upTo[a.class] {
			a.class++
		}
		all = append(all, a)
	}
}

// drive sends what arrives when it is due, whether or not earlier requests were answered, and returns when
// all of them have come to an end.
func drive(ctx context.Context, addr string, s *scenario, p plan, begin time.Time) []sample {
	all := arrivals(s, p)
	transport := &http.Transport{MaxIdleConnsPerHost: len(all), DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	var on sync.WaitGroup
	defer on.Wait()
	for i := range all {
		a := &all[i]
		due := begin.Add(p.since(a.at))
		select {
		case <-ctx.Done():
			return all[:i]
		case <-time.After(time.Until(due)):
		}
		on.Go(func() {
			a.late = time.Since(due)
			a.outcome = send(ctx, &client, addr, s, a, due.Add(patience))
			if a.took = time.Since(due); a.outcome == served && a.took > patience {
				a.outcome = failed
			}
		})
	}
	return all
}

// send sends one request and waits for its answer until a deadline.
func send(ctx context.Context, client *http.Client, addr string, s *scenario, a *sample, deadline time.Time) outcome {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	rule := byFlight
	if s.orca {
		rule = byHeader
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/%s/%s/thing", addr, rule, a.class), nil)
	if err != nil {
		return failed
	}
	req.Header.Set("x-user-id", fmt.Sprintf("user-%d", a.key))
	resp, err := client.Do(req)
	if err != nil {
		return failed
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		return served
	case resp.StatusCode == http.StatusServiceUnavailable:
		return rejected
	}
	return failed
}
