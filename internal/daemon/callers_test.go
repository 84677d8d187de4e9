package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// shown is a connection on which a certificate for these names was shown.
func shown(t *testing.T, names ...string) *tls.ConnectionState {
	t.Helper()
	text, _ := pki.NewAuthority().Issue("x", names...)
	block, _ := pem.Decode(text)
	cert := fatal.Get(x509.ParseCertificate(block.Bytes))(t)
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
}

// Who may call, and who may call for which region.
func TestCallers(t *testing.T) {
	const regions, hosts = "weir://region/{region}", "{region}.weir.example"
	for _, c := range []struct {
		allowed callers
		names   []string // of the certificate
		region  string   // that the call states
		may     bool     // make any call
		speaks  bool
	}{
		{callers{regions}, []string{"weir://region/eu"}, "eu", true, true},
		{callers{regions}, []string{"weir://region/eu"}, "us", true, false},
		{callers{regions}, []string{"weir://region/eu"}, "", true, false},
		{callers{regions}, []string{"weir://region/eu"}, "{region}", true, false},
		{callers{regions}, []string{"weir://pop/eu"}, "eu", false, false},
		{callers{regions}, []string{"weir://region/"}, "", false, false},
		{callers{regions}, []string{"weir://region/eu/us"}, "eu/us", false, false},
		{callers{regions}, []string{"weir://region/%65u"}, "eu", false, false},
		{callers{regions}, nil, "eu", false, false},
		{callers{regions, "weir://operator"}, []string{"weir://operator"}, "eu", true, false},
		{callers{regions, "spiffe://a/{region}"}, []string{"spiffe://a/eu"}, "eu", true, true},
		{callers{hosts}, []string{"eu.weir.example"}, "eu", true, true},
		{callers{hosts}, []string{"eu.other.example"}, "eu", false, false},
		{callers{hosts}, []string{"EU.weir.example"}, "eu", true, false},
		{callers{hosts}, []string{"*.weir.example"}, "eu", false, false},
		{callers{"weir://pop/eu"}, []string{"weir://pop/eu"}, "", true, false},
		{callers{"weir://pop/eu"}, []string{"weir://pop/us"}, "", false, false},
		{callers{"pop.example"}, []string{"POP.example"}, "", false, false},
		{callers{"10.0.0.1"}, []string{"10.0.0.1"}, "", true, false},
	} {
		state := shown(t, c.names...)
		if may, _ := c.allowed.may(state.PeerCertificates[0], ""); may != c.may {
			t.Errorf("%v, certificate for %v: %v", c.allowed, c.names, may)
		}
		if err := c.allowed.speaks(state, c.region); (err == nil) != c.speaks {
			t.Errorf("%v, certificate for %v, region %q: %v", c.allowed, c.names, c.region, err)
		}
	}
	if err := (callers{regions}).speaks(nil, "eu"); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("without TLS: %v", err)
	}
}

// Whoever is not among the callers reaches nothing behind the guard.
func TestGuard(t *testing.T) {
	reached, log := 0, new(bytes.Buffer)
	h := callers{"weir://pop/eu"}.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }),
		telemetry.NewRegistry("test"), newRejections(slog.New(slog.NewTextHandler(log, nil))))
	for _, c := range []struct {
		state  *tls.ConnectionState
		status int
	}{{nil, 403}, {shown(t, "weir://pop/us"), 403}, {shown(t, "weir://pop/eu"), 200}} {
		for _, kind := range []string{"application/proto", "application/json", "text/html"} {
			r := httptest.NewRequest(http.MethodPost, "/weir.quota.v1.QuotaService/Rules", nil)
			r.Header.Set("Content-Type", kind)
			r.TLS = c.state
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s: %d %s, want %d", kind, w.Code, w.Body, c.status)
			}
		}
	}
	if reached != 3 {
		t.Errorf("%d requests passed, want 3", reached)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no certificate") || !strings.Contains(text, "192.0.2.1") {
		t.Errorf("six rejections in a minute are logged as\n%s\nwant one line with the reason and the address", text)
	}
}

// Without names in the settings the program decides who may call.
func TestDefaultCallers(t *testing.T) {
	for _, c := range []struct {
		tls     TLS
		program Program
		want    string
	}{
		{TLS{}, Program{}, ""},
		{TLS{Port: certs.Port{ClientCA: "ca"}}, Program{}, "weir://region/{region}"},
		{TLS{Port: certs.Port{ClientCA: "ca"}}, Program{AggregatorCalls: &AggregatorCalls{Region: "eu"}}, "weir://pop/eu"},
		{TLS{Port: certs.Port{ClientCA: "ca"}}, Program{AggregatorCalls: &AggregatorCalls{}}, "weir://pop/"},
		{TLS{Port: certs.Port{ClientCA: "ca"}, ClientSAN: []string{"a", "b"}}, Program{}, "a,b"},
	} {
		if got := strings.Join(c.tls.callers(c.program), ","); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tls, got, c.want)
		}
	}
}

// A port with TLS that asks for no certificate is logged: its owner may believe that it does.
func TestAnybody(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, pki.NewAuthority().Write(dir, "x", "weir-regional"))
	cert := filepath.Join(dir, "x.pem")
	for clientCA, warns := range map[string]bool{"": true, cert: false} {
		var log strings.Builder
		c := TLS{Port: certs.Port{Cert: cert, Key: filepath.Join(dir, "x.key"), ClientCA: clientCA}}
		fatal.Get(c.config(telemetry.NewRegistry("test"), slog.New(slog.NewTextHandler(&log, nil))))(t)
		if strings.Contains(log.String(), "callers need no certificate") != warns {
			t.Errorf("client CA %q: %s", clientCA, &log)
		}
	}
}

// Without TLS calls stay on this machine, unless that is allowed by name. All plain ones are
// logged, each address by itself, with what to change.
func TestPlain(t *testing.T) {
	near := []string{"127.0.0.1:1", "127.9.8.7:1", "localhost:2", "[::1]:3"}
	far := []string{"10.0.0.7:4", "weir-global:5", "localhost.example:6", "[2001:db8::1]:7", "0.0.0.0:8", ":9"}
	all := slices.Concat(near, far)
	for name, c := range map[string]struct {
		calls                    AggregatorCalls
		usable, warned, rejected []string
	}{
		"plain":         {AggregatorCalls{}, near, near, far},
		"plain allowed": {AggregatorCalls{AggregatorPlain: true}, all, all, nil},
		"TLS":           {AggregatorCalls{AggregatorTLS: ClientTLS{TLS: true}}, all, nil, nil},
	} {
		log := new(proc.Lines)
		if usable := c.calls.usable(all, slog.New(slog.NewTextHandler(log, nil))); !slices.Equal(usable, c.usable) {
			t.Errorf("%s: %q may be called, want %q", name, usable, c.usable)
		}
		for _, address := range all {
			end := "address=" + address + "\n"
			if warned := len(log.With("level=WARN", "--aggregator-tls", end)) == 1; warned != slices.Contains(c.warned, address) {
				t.Errorf("%s: warned of %s: %v", name, address, warned)
			}
			if rejected := len(log.With("level=ERROR", "--aggregator-tls-ca", "--aggregator-plain", end)) == 1; rejected != slices.Contains(c.rejected, address) {
				t.Errorf("%s: rejected %s: %v", name, address, rejected)
			}
			c.calls.Region, c.calls.Aggregator = "eu", []string{address}
			err := c.calls.Check()
			if rejected := err != nil && strings.Contains(err.Error(), "aggregator: calls of \""+address+"\"") && strings.Contains(err.Error(), plainRemedy); rejected != slices.Contains(c.rejected, address) {
				t.Errorf("%s: --aggregator %s: %v", name, address, err)
			}
		}
	}
}
