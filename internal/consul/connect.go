package consul

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/certs"
)

// Config is how an agent is reached. What is empty comes from the environment, by the names
// that Consul's own tools have: CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_SSL,
// CONSUL_CACERT and so on. So do the namespace and the partition.
type Config struct {
	// Address is host:port.
	Address string

	// TLS has the authorities of the agent's certificate, and the certificate that the agent
	// is shown, if there is one. nil: as the environment has it.
	TLS *certs.Set

	// ServerName is what the agent's certificate must be for. Empty: the host of Address.
	// Only with TLS.
	ServerName string

	// TokenFile has the token. It is read for each call, so that a token is changed by
	// changing the file.
	TokenFile string
}

// client makes what calls the agent.
func (c *Config) client(log *slog.Logger) (*api.Client, error) {
	a := api.DefaultConfig()
	a.Address = c.Address
	a.Transport.DialContext = (&certs.Dialer{Timeout: dialTime}).DialContext
	if c.TLS != nil {
		a.Scheme, a.Transport.DialTLSContext = "https", (&certs.Dialer{Secure: c.TLS.Client(c.ServerName), Timeout: dialTime}).DialContext
		a.Transport.TLSClientConfig = new(tls.Config) // nothing of the environment
	}
	var err error
	if a.HttpClient, err = api.NewHttpClient(a.Transport, a.TLSConfig); err != nil {
		return nil, err
	}
	if path := cmp.Or(c.TokenFile, a.TokenFile); path != "" {
		token := &token{path: path, next: a.HttpClient.Transport, log: log}
		if _, err := token.read(); err != nil {
			return nil, err
		}
		a.HttpClient.Transport = token
	}
	return api.NewClient(a)
}

// dialTime bounds making a connection to the agent, which may be that of another machine for
// `weir rules apply`.
const dialTime = 5 * time.Second

// token adds the token in a file to each call.
type token struct {
	path string
	next http.RoundTripper
	log  *slog.Logger

	mu      sync.Mutex
	last    string // that could be read
	failure string // the last error in the log; empty if the file is good
}

func (t *token) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Consul-Token", t.current())
	return t.next.RoundTrip(req)
}

// current is the token in the file, or the last one while there is none.
func (t *token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch text, err := t.read(); {
	case err == nil:
		t.last, t.failure = text, ""
	case err.Error() != t.failure:
		t.failure = err.Error()
		t.log.Error("consul: cannot read the token; the last one stays in use", "error", err)
	}
	return t.last
}

func (t *token) read() (string, error) {
	text, err := os.ReadFile(t.path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("token: %s is empty", t.path)
	}
	return secret, nil
}
