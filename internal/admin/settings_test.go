package admin

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/certs"
)

// Settings that do not fit together are rejected.
func TestSettings(t *testing.T) {
	for want, a := range map[string]Settings{
		"admin_tls_cert: goes together with admin_tls_key": {TLS: certs.Port{Cert: "x"}},
		"admin_tls_client_ca: needs admin_tls_cert":        {TLS: certs.Port{ClientCA: "x"}, Tokens: "x"},
		"admin_tls_client_ca: needs admin_tokens":          {TLS: certs.Port{ClientCA: "x", Cert: "x", Key: "x"}},
	} {
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9:1": true, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "weir.internal:1": false} {
		if got := IsLoopback(address); got != want {
			t.Errorf("%s: loopback %v", address, got)
		}
	}
}
