package envoyrls

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// Handle adds what is served over HTTP, for clients without gRPC:
//
//	/json         a request and its response as proto3 JSON; 200: within the
//	              limits, 429: over a limit, 400 and 413: a wrong request, 500: a
//	              mistake in this server, 503: there is no configuration yet
//	/healthcheck  200 OK; 500 while not ready, draining or without configuration
//	/rlconfig     the limits in force, one a line, as envoyproxy/ratelimit prints
//	              them; then the bindings
//
// Any method is accepted, as in envoyproxy/ratelimit.
//
// It has no certificates. Where clients must present one (TLS.ClientCA), /json and
// /rlconfig answer 403: they would be a way around that.
func (s *Server) Handle(mux *http.ServeMux) {
	mux.HandleFunc("/healthcheck", s.healthcheck)
	if s.cfg.TLS.ClientCA != "" {
		mux.HandleFunc("/json", byCertificateOnly)
		mux.HandleFunc("/rlconfig", byCertificateOnly)
		return
	}
	mux.HandleFunc("/json", s.json)
	mux.HandleFunc("/rlconfig", s.rlconfig)
}

func byCertificateOnly(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "clients must present a certificate (--rls-tls-client-ca), and this port does not ask for one; use gRPC on --rls-listen", http.StatusForbidden)
}

func (s *Server) json(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var request rlspb.RateLimitRequest
	if err == nil {
		if err = protojson.Unmarshal(body, &request); err != nil {
			err = wrong("body", "is no request: %v", err)
		}
	}
	var response *rlspb.RateLimitResponse
	if err == nil {
		response, err = s.shouldRateLimit(r.Context(), r.Header.Values("Traceparent"), &request)
	}
	var reply []byte
	if err == nil {
		reply, err = protojson.Marshal(response)
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT {
		w.Header().Set("X-Envoy-Ratelimited", "true") // an Envoy between must not repeat what was counted
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(reply) // the client has gone
}

// fail answers a request with its error.
func fail(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	code, text := http.StatusBadRequest, status.Convert(err).Message()
	switch {
	case errors.As(err, &large):
		code, text = http.StatusRequestEntityTooLarge, fmt.Sprintf("body has more than %d bytes", large.Limit)
	case errors.Is(err, errUnconfigured):
		code = http.StatusServiceUnavailable
	case errors.Is(err, errPanicked):
		code = http.StatusInternalServerError
	}
	http.Error(w, text, code)
}

func (s *Server) healthcheck(w http.ResponseWriter, r *http.Request) {
	if answer, _ := s.health.Check(r.Context(), new(healthpb.HealthCheckRequest)); answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}

func (s *Server) rlconfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	in := s.rules.Load()
	for r := range in.Config.Rules() {
		unit := rlspb.RateLimitResponse_RateLimit_Unit(r.Unit) // UNKNOWN if unlimited
		fmt.Fprintf(w, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n",
			r.AppendStatName(nil, nil), unit, r.RequestsPerUnit, r.Shadow, r.Quota)
	}
	in.Bindings.Write(w)
}
