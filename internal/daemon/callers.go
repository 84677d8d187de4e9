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
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// TLS has the settings of the port of the QuotaService. Its files are read again when they
// change; open connections keep the certificates that they have.
type TLS struct {
	// Cert and Key encrypt the connections; both or none.
	Cert string `help:"Certificate of the QuotaService's port: PEM. It then takes TLS alone." placeholder:"FILE"`
	Key  string `help:"Its key." placeholder:"FILE"`

	// ClientCA has the authorities of callers' certificates. Every caller must then present
	// one, also for /healthz. Empty: callers need no certificate.
	ClientCA string `name:"client-ca" help:"Authorities of callers' certificates, which are then required." placeholder:"FILE"`

	// ClientSAN has the names of callers, with commas between; a caller's certificate must have
	// one of them, byte by byte, as a URI, DNS name, IP address or e-mail address. For
	// weir-global each needs {region} once, which stands for the region that a call states: no
	// region can call in the name of another one. For weir-regional {region} is a mistake. Only with
	// ClientCA. Empty: weir://region/{region} for weir-global; for weir-regional weir://pop/
	// and the name of its region, or any name where it has none.
	ClientSAN []string `name:"client-san" help:"Names that callers' certificates must have, such as weir://region/{region}." placeholder:"NAME"`
}

func (t *TLS) check() error {
	return errors.Join(
		settings.Pair("tls_cert", t.Cert, "tls_key", t.Key),
		settings.Refuse(t.ClientCA != "" && t.Cert == "", "tls_client_ca: needs tls_cert and tls_key: without TLS no caller presents a certificate"),
		settings.Refuse(len(t.ClientSAN) > 0 && t.ClientCA == "", "tls_client_san: needs tls_client_ca: without it no caller presents a certificate"),
	)
}

// CheckRegions checks the names of callers of a program that regions call, or that they do not
// call.
func (t *TLS) CheckRegions(called bool) error {
	var errs []error
	for _, name := range t.ClientSAN {
		n := strings.Count(name, stated)
		errs = append(errs,
			settings.Refuse(called && n != 1, "tls_client_san: %q has {region} %d times, which must be there once, such as in weir://region/{region}: else its owner could call in the name of every region", name, n),
			settings.Refuse(!called && n > 0, "tls_client_san: %q has {region}, but PoPs state no region; write the name of this region for it", name))
	}
	return errors.Join(errs...)
}

// config is the configuration of the port; nil without TLS.
func (t *TLS) config(metrics *telemetry.Registry, log *slog.Logger) (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	set, err := certs.Load("callers", certs.Files{Cert: t.Cert, Key: t.Key, CA: t.ClientCA}, metrics, log)
	if err != nil {
		return nil, err
	}
	return set.Server(nil, "h2", "http/1.1"), nil
}

// stated stands for the region that a call states.
const stated = "{region}"

// callers are the names of those who may call; nil: everybody may.
type callers []string

// callers are those that the settings allow, or that a program allows by default.
func (t *TLS) callers(p Program) callers {
	switch {
	case t.ClientCA == "" || len(t.ClientSAN) > 0:
		return t.ClientSAN
	case p.Divides:
		return callers{"weir://region/" + stated}
	case p.Above != nil && p.Above.Region != "":
		return callers{"weir://pop/" + p.Above.Region}
	}
	return nil
}

// may reports whether a certificate allows a call, of whatever region.
func (c callers) may(cert *x509.Certificate) bool {
	for _, has := range certs.Names(cert) {
		for _, name := range c {
			if _, ok := regionIn(name, has); ok || has == name {
				return true
			}
		}
	}
	return false
}

// maySpeakFor reports whether a certificate allows a call that states a region.
func (c callers) maySpeakFor(cert *x509.Certificate, region string) bool {
	for _, has := range certs.Names(cert) {
		for _, name := range c {
			if of, ok := regionIn(name, has); ok && of == region {
				return true
			}
		}
	}
	return false
}

// regionIn is the region that stands for {region} in a name.
func regionIn(pattern, name string) (region string, ok bool) {
	before, after, ok := strings.Cut(pattern, stated)
	region, begins := strings.CutPrefix(name, before)
	region, ends := strings.CutSuffix(region, after)
	return region, ok && begins && ends && rule.IsRegion(region)
}

// refusals logs why callers are refused, at most once a minute: one that is not allowed
// may call often. It is safe for concurrent use.
type refusals struct {
	log    *slog.Logger
	logged repeat.Seldom
}

// note logs an error; nil: nothing was refused.
func (r *refusals) note(err error, from string) {
	if err != nil && r.logged.Now() {
		r.log.Warn("caller refused", "reason", err, "from", from)
	}
}

// guard refuses requests of everybody else with 403, and counts them.
func (c callers) guard(next http.Handler, r *telemetry.Registry, log *refusals) http.Handler {
	if len(c) == 0 {
		return next
	}
	refused := r.Counter("weir_callers_refused_total", "Requests of callers whose certificate --tls-client-san does not allow.")
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cert := certificate(r.TLS); cert == nil || !c.may(cert) {
			refused.Inc()
			err := connect.NewError(connect.CodePermissionDenied, c.refused(cert))
			log.note(err.Unwrap(), r.RemoteAddr)
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
// [limiter.Handler.Authorize].
func (c callers) speaks(state *tls.ConnectionState, region string) error {
	cert := certificate(state)
	if cert != nil && c.maySpeakFor(cert, region) {
		return nil
	}
	return fmt.Errorf("the call is for region %q: %w", region, c.refused(cert))
}

func (c callers) refused(cert *x509.Certificate) error {
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
