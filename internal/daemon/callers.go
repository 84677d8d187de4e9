package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// stated stands for the region that a call states.
const stated = "{region}"

// callers are the names of those who may call; nil: everybody may.
type callers []string

// callers are those that the settings allow, or that a program allows by default.
func (t *TLS) callers(p Program) callers {
	switch {
	case t.ClientCA == "" || len(t.ClientSAN) > 0:
		return t.ClientSAN
	case p.AggregatorCalls == nil:
		return callers{"weir://region/" + stated}
	}
	return callers{"weir://pop/" + p.AggregatorCalls.Region} // nobody's, if it has none
}

// may reports whether a certificate allows a call, of whatever region, and whether one that states this region.
func (c callers) may(cert *x509.Certificate, region string) (call, speak bool) {
	if cert == nil {
		return false, false
	}
	for _, has := range certs.Names(cert) {
		for _, name := range c {
			of, ok := regionIn(name, has)
			call, speak = call || ok || has == name, speak || ok && of == region
		}
	}
	return call, speak
}

// regionIn is the region that stands for {region} in a name.
func regionIn(pattern, name string) (region string, ok bool) {
	before, after, ok := strings.Cut(pattern, stated)
	region, begins := strings.CutPrefix(name, before)
	region, ends := strings.CutSuffix(region, after)
	return region, ok && begins && ends && rule.IsRegion(region)
}

// newRejections returns a function that logs why a caller is rejected, at most once a minute: one that is not allowed
// may call often. nil: none is. It is safe for concurrent use.
func newRejections(log *slog.Logger) func(err error, from string) {
	logged := new(repeat.OncePerMinute)
	return func(err error, from string) {
		if err != nil && logged.Now() {
			log.Warn("caller rejected", "reason", err, "from", from)
		}
	}
}

// guard rejects requests of everybody else with 403, and counts them.
func (c callers) guard(next http.Handler, r *telemetry.Registry, log func(err error, from string)) http.Handler {
	if len(c) == 0 {
		return next
	}
	rejected := r.Counter("weir_callers_rejected_total", "Requests of callers whose certificate --tls-client-san does not allow.")
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cert := certificate(r.TLS)
		if may, _ := c.may(cert, ""); !may {
			rejected.Inc()
			err := connect.NewError(connect.CodePermissionDenied, c.rejected(cert))
			log(err.Unwrap(), r.RemoteAddr)
			if writer.IsSupported(r) {
				_ = writer.Write(w, r, err) // the caller has gone
			} else {
				http.Error(w, err.Message(), http.StatusForbidden)
			}
			return
		}
		next.ServeHTTP(w, r)
	})
}

// speaks returns an error if a call states another region than its certificate. It is for
// [service.Handler.Authorize].
func (c callers) speaks(state *tls.ConnectionState, region string) error {
	cert := certificate(state)
	if _, may := c.may(cert, region); may {
		return nil
	}
	return fmt.Errorf("the call is for region %q: %w", region, c.rejected(cert))
}

func (c callers) rejected(cert *x509.Certificate) error {
	if cert == nil {
		return errors.New("the caller has shown no certificate")
	}
	return fmt.Errorf("the caller's certificate is for %q, which --tls-client-san (%s) does not allow", certs.Names(cert), strings.Join(c, ","))
}

func certificate(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}
