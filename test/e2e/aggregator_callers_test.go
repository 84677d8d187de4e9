package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// caller makes calls of a holder of its own; seq counts them.
type caller struct {
	t      *testing.T
	client http.Client
	url    string
	seq    int
}

func newCaller(t *testing.T, url string, secure *tls.Config) *caller {
	return &caller{t: t, client: http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}}, url: url}
}

// ask asks for a unit of a rule in the name of a region, again for as long as the aggregator, which
// has just started, has not read its store.
func (c *caller) ask(region, rule string) (status int, answer string) {
	c.t.Helper()
	proc.Eventually(c.t, 20*time.Second, "the aggregator decides", func() bool {
		status, answer = c.askOnce(region, rule)
		return status != http.StatusServiceUnavailable
	})
	return status, answer
}

func (c *caller) askOnce(region, rule string) (status int, answer string) {
	c.t.Helper()
	c.seq++
	req, err := http.NewRequest(http.MethodPost, c.url+quotapbconnect.QuotaServiceAcquireProcedure, strings.NewReader(fmt.Sprintf(
		`{"protocol": 1, "holder": "YmJiYmJiYmJiYmJiYmJiYg==", "seq": %d, "region": %q, "wants": [{"rule": %q, "key": "aw==", "need": 1, "waiting": 1, "want": 1}]}`,
		c.seq, region, rule)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, body, err := page.Do(&c.client, req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// An aggregator takes calls of regions alone, each in its own name, and counts rules with scope:
// global alone.
func TestCallersOfTheAggregator(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM, 0o600), a.Write(dir, "global", "weir-global")); err != nil {
		t.Fatal(err)
	}
	secure := func(name, names string) *region.Region {
		return region.New(t, region.Config{Dir: dir, Name: name, Rules: regionsRules, Program: "weir-global", Flags: []string{"--state", "off",
			"--tls-cert", filepath.Join(dir, "global.pem"), "--tls-key", filepath.Join(dir, "global.key"), "--tls-client-ca", filepath.Join(dir, "ca.pem"),
			"--tls-client-san", names}})
	}
	t.Run("with TLS", func(t *testing.T) {
		aggregator := secure("secure", "{region}.weir.example,weir://region/{region}")
		aggregator.Start()
		roots := x509.NewCertPool()
		roots.AddCert(a.Certificate)
		for _, c := range []struct {
			name, region string
			status       int
		}{
			{"eu.weir.example", "eu", http.StatusOK},
			{"weir://region/eu", "eu", http.StatusOK},
			{"EU.weir.example", "eu", http.StatusForbidden},
			{"*.weir.example", "eu", http.StatusForbidden},
			{"weir://region/us", "eu", http.StatusForbidden},
			{"weir://region/eu/us", "eu/us", http.StatusForbidden},
			{"weir://region/eu", "", http.StatusForbidden},
		} {
			own := clientOf(t, a, c.name)
			one := newCaller(t, "https://"+aggregator.Addr, &tls.Config{RootCAs: roots, ServerName: "weir-global", Certificates: []tls.Certificate{*own}})
			if status, answer := one.ask(c.region, "strict"); status != c.status {
				t.Errorf("a certificate for %s, region %q: %d %s, want %d", c.name, c.region, status, answer, c.status)
			}
		}
	})
	t.Run("without TLS", func(t *testing.T) {
		aggregator := region.New(t, region.Config{Dir: dir, Name: "plain", Rules: regionsRules, Program: "weir-global", Flags: []string{"--state", "off"}})
		aggregator.Start()
		one := newCaller(t, "http://"+aggregator.Addr, nil)
		for name, refusal := range map[string]string{"": "region: is missing", "eu/us": "is no name of a region"} {
			if status, answer := one.ask(name, "strict"); status != http.StatusBadRequest || !strings.Contains(answer, refusal) {
				t.Errorf("region %q: %d %s, want %q", name, status, answer, refusal)
			}
		}
		for rule, granted := range map[string]string{"strict": "STATUS_OK", "both-region": "STATUS_UNKNOWN_RULE"} {
			if status, answer := one.ask("eu", rule); status != http.StatusOK || !strings.Contains(answer, granted) {
				t.Errorf("a unit of %s: %d %s, want %s", rule, status, answer, granted)
			}
		}
	})
	t.Run("a name without a region is refused at the start", func(t *testing.T) {
		aggregator := secure("unnamed", "weir://region/{region},weir://operator")
		aggregator.Begin()
		proc.Eventually(t, 20*time.Second, "it ends", aggregator.Exited)
		if want := `"weir://operator" has {region} 0 times, which must be there once`; !strings.Contains(aggregator.Log(), want) {
			t.Errorf("%s\nwant %s", aggregator.Log(), want)
		}
	})
}
