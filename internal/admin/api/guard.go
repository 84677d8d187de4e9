package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/repeat"
)

// admitEvery is how often it is asked again whether the caller of a stream may still call.
const admitEvery = time.Second

// StreamPath is the path of the one operation whose answer does not end.
const StreamPath = "/v1/stream"

// Handler serves what is below /v1/.
func (a *API) Handler() http.Handler {
	return a.guarded(a.admit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != StreamPath {
			a.mux.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(a.ended, cancel)()
		go func() { // until the token is removed or ends, too
			for repeat.Sleep(ctx, admitEvery) {
				if _, p := a.admit(r); p != nil {
					cancel()
				}
			}
		}()
		a.mux.ServeHTTP(stream{w}, r.WithContext(ctx))
	}))
}

// stream is the answer of a stream. The deadline of an event ends when the event is written: HTTP/2 cuts a stream whose
// deadline passes although nothing is to be written.
type stream struct{ http.ResponseWriter }

func (s stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s stream) Flush() {
	c := http.NewResponseController(s.ResponseWriter)
	_, _ = c.Flush(), c.SetWriteDeadline(time.Time{}) // the next write fails, too
}

// somebody reads the page.
var somebody = access.Caller{Name: "somebody", Role: access.Admin}

// Guard lets admins use a handler of another path, but for those with a prefix.
func (a *API) Guard(next http.Handler) http.Handler {
	return a.guarded(func(r *http.Request) (access.Caller, *v1.Problem) {
		caller, p := a.admit(r)
		return caller, cmp.Or(p, permit(caller, access.Admin), Unbound(caller))
	}, next)
}

// Unbound is why a caller may not do what concerns all rules; nil: it may.
func Unbound(c access.Caller) *v1.Problem {
	if c.Prefix == "" {
		return nil
	}
	return v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, c.Name+" may change rules alone whose names begin with "+c.Prefix)
}

// Page lets everybody read a page that has no secrets; on this machine not under the host name of somebody else's page.
func (a *API) Page(next http.Handler) http.Handler {
	return a.guarded(func(r *http.Request) (access.Caller, *v1.Problem) { return somebody, a.host(r) }, next)
}

// guarded lets those use a handler whom admit admits, as often as they may.
func (a *API) guarded(admit func(r *http.Request) (access.Caller, *v1.Problem), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		caller, p := admit(r)
		leave := func() {}
		if p == nil && caller != somebody { // one who reads slowly must not keep all others out
			leave, p = a.limits.enter(caller, r.URL.Path == StreamPath, time.Now())
		}
		if p != nil {
			a.reject(w, p, r.RemoteAddr)
			return
		}
		defer leave()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// secure sets the headers that keep browsers from doing anything else with an answer than showing it.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
}

// local reports whether a call comes from this machine.
func (a *API) local(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return a.cfg.Loopback || a.cfg.Local && ok && at.IP.IsLoopback()
}

// Closed is why the port serves health and metrics only; empty: it serves the API.
func (a *API) Closed() string { return a.closed(a.cfg.Loopback || a.cfg.Local) }

func (a *API) closed(local bool) string {
	if local || a.cfg.Secure && a.cfg.Callers != nil {
		return ""
	}
	return "others than this machine can reach this port, and it has no TLS or no tokens: it serves health and metrics only; " +
		"give --admin-tls-cert, --admin-tls-key and --admin-tokens, or call a loopback address and give it as --admin-listen, or --admin-local"
}

// admit is who makes a call, or why it is rejected.
func (a *API) admit(r *http.Request) (access.Caller, *v1.Problem) {
	var nobody access.Caller
	if reason := a.closed(a.local(r)); reason != "" {
		return nobody, v1.NewProblem(http.StatusForbidden, v1.CodeNotServed, reason)
	}
	if p := a.browser(r); p != nil {
		return nobody, p
	}
	if a.cfg.Callers == nil {
		return access.Caller{Name: "local", Role: access.Admin}, nil
	}
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		return a.byToken(authorization)
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // it has been verified
		names := certs.Names(r.TLS.PeerCertificates[0])
		if caller, ok := a.cfg.Callers.Client(names); ok {
			return caller, nil
		}
		return nobody, v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, "the certificate is for "+strings.Join(names, ", ")+
			", and --admin-tokens has none of these names among its clients")
	}
	return nobody, unauthenticated(v1.CodeNobody, "this needs a token, as Authorization: Bearer TOKEN, or a client certificate; `weir admin token` makes tokens")
}

func (a *API) byToken(authorization string) (access.Caller, *v1.Problem) {
	scheme, token, _ := strings.Cut(authorization, " ")
	caller, known := a.cfg.Callers.Token(strings.TrimSpace(token))
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return access.Caller{}, unauthenticated(v1.CodeNobody, "Authorization must be: Bearer TOKEN")
	case !known:
		return access.Caller{}, unauthenticated(v1.CodeNobody, "--admin-tokens has no such token; it may be of another installation, or removed")
	case caller.Over(time.Now()):
		return access.Caller{}, unauthenticated(v1.CodeOver, "the token of "+caller.Name+" ended at "+caller.Until.Format(time.RFC3339)+"; `weir admin token` makes another one")
	}
	return caller, nil
}

func unauthenticated(code, detail string) *v1.Problem {
	return v1.NewProblem(http.StatusUnauthorized, code, detail).With("WWW-Authenticate", `Bearer realm="weir"`)
}

// browser is why a call that a page of another origin may have caused is rejected.
func (a *API) browser(r *http.Request) *v1.Problem {
	if p := a.host(r); p != nil {
		return p
	}
	err := a.cross.Check(r)
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" { // reads, too: they make PoPs report
		err = errors.New(site + " request")
	}
	if err != nil {
		return v1.NewProblem(http.StatusForbidden, v1.CodeOrigin, "a page of another origin caused this call: "+err.Error())
	}
	return nil
}

// host is why a call is rejected that comes on this machine under the name of a page, whose owner has let that name mean
// this machine (DNS rebinding).
func (a *API) host(r *http.Request) *v1.Problem {
	if a.local(r) && !isHost(r.Host) {
		return v1.NewProblem(http.StatusForbidden, v1.CodeHost, "the call is for the host "+r.Host+"; use 127.0.0.1 or localhost")
	}
	return nil
}

func isHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return net.ParseIP(strings.Trim(host, "[]")) != nil || strings.EqualFold(host, "localhost")
}

// reject answers with a problem.
func (a *API) reject(w http.ResponseWriter, p *v1.Problem, from string) {
	a.rejected.WithLabelValues(p.Code).Inc()
	if a.logged.Now() {
		a.cfg.Log.Warn("admin call rejected", "code", p.Code, "reason", p.Detail, "from", from)
	}
	write(w, p)
}

// write answers with a problem.
func write(w http.ResponseWriter, p *v1.Problem) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", v1.ProblemType)
	w.WriteHeader(p.Status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(p) // the client has gone
}
