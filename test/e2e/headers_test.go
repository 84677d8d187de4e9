package e2e

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const headerRules = `
  - { name: told, match: { path: { prefix: /told } }, timeout: 1s, key: [ { header: x-user } ], limit: 2/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny, headers: [draft, x-draft03] }
  - { name: by-address, match: { path: /by-address }, timeout: 1s, key: [ client_ip ], limit: 3/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny }
`

// Headers show a client what is left, and when it was rejected, by which rule and when
// to come back.
func clientHeaders(t *testing.T, s *stack.Stack) {
	for i, p := range s.PoPs {
		user := "of-" + p.Name
		expect(t, p.Get("/told", "x-user", user), 200, map[string]string{
			"RateLimit-Policy":      `^"told";q=2;w=86400$`,
			"RateLimit":             `^"told";r=1;t=\d+$`,
			"X-RateLimit-Limit":     `^2`,
			"X-RateLimit-Remaining": `^1$`,
			"X-RateLimit-Reset":     `^\d+$`,
			"Retry-After":           `^$`,
		})
		p.Get("/told", "x-user", user)

		r := s.PoPs[1-i].Get("/told", "x-user", user)
		expect(t, r, 429, map[string]string{
			"RateLimit":    `^"told";r=0;t=\d+$`,
			"Retry-After":  `^[1-9]\d*$`,
			"Content-Type": `^application/problem\+json$`,
		})
		day := time.Until(proc.AwaitWindow(24*time.Hour, 0)).Seconds()
		if after, _ := strconv.ParseFloat(r.Header.Get("Retry-After"), 64); math.Abs(after-day) > 60 {
			t.Errorf("Retry-After is %v s, and the day ends in %v s", after, day)
		}
		var problem struct {
			Type     string
			Status   int
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(r.Body), &problem); err != nil {
			t.Fatalf("body of the rejection: %v: %s", err, r.Body)
		}
		if problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
			len(problem.Violated) != 1 || problem.Violated[0] != "told" {
			t.Errorf("problem: %+v", problem)
		}

		// gRPC: status 200 of HTTP, RESOURCE_EXHAUSTED of gRPC (8).
		r = p.Get("/told", "x-user", user, "Content-Type", "application/grpc")
		expect(t, r, 200, map[string]string{"Grpc-Status": `^8$`})
	}
}

// Operators see each rule's decisions as one metric with labels.
func operatorSees(t *testing.T, s *stack.Stack) {
	want := regexp.MustCompile(`(?m)^weir_decisions{rule="told",decision="denied"} [1-9]`)
	for _, p := range s.PoPs {
		proc.Eventually(t, 10*time.Second, want.String(), func() bool {
			return want.MatchString(do(t, p.Admin, http.MethodGet, "/stats/prometheus").Body)
		})
	}
}
