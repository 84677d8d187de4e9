package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// VerifyTokens has the PoP verify tokens (JWT) of https://issuer.example.com, as envoy/jwt.yaml has it, by these
// keys (JWKS as JSON). Nobody is asked for others; ca is any file of authorities.
func (b *Bootstrap) VerifyTokens(jwks, ca string) {
	b.t.Helper()
	b.Lay("jwt.yaml", "/etc/ssl/certs/ca-certificates.crt", ca)
	b.SetCluster("issuer", proc.FreeAddr(b.t))
	issuer := b.at(b.manager(), "http_filters/0/typed_config/providers/issuer")
	delete(issuer, "remote_jwks")
	issuer["local_jwks"] = node{"inline_string": jwks}
}

// AddClientTLS adds a listener that is as the PoP's is now but for TLS: it has a certificate of its own, and
// verifies one that a client may have by the authority. All are files.
func (b *Bootstrap) AddClientTLS(addr, cert, key, ca string) {
	b.t.Helper()
	l := b.copyListener("pop", "pop-tls", addr)
	file := func(path string) node { return node{"filename": path} }
	b.at(l, "filter_chains/0")["transport_socket"] = node{
		"name": "envoy.transport_sockets.tls",
		"typed_config": node{
			"@type":                      "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
			"require_client_certificate": false,
			"common_tls_context": node{
				"alpn_protocols":     []any{"h2", "http/1.1"},
				"tls_certificates":   []any{node{"certificate_chain": file(cert), "private_key": file(key)}},
				"validation_context": node{"trusted_ca": file(ca)},
			},
		},
	}
}

// AddPlugin adds a listener that is as the PoP's is now but for the plugin, which has another name and these fields.
func (b *Bootstrap) AddPlugin(addr, name string, fields map[string]any) {
	b.t.Helper()
	config, text := b.wasm(), b.Plugin()
	was, value := config["name"], b.at(config, "configuration")["value"]
	config["name"] = name
	maps.Copy(text, fields)
	b.SetPluginText(b.marshal(text))
	b.copyListener("pop", "pop-"+name, addr)
	config["name"], b.at(config, "configuration")["value"] = was, value
}

// copyListener adds a listener at addr that is as another one is now, and returns it.
func (b *Bootstrap) copyListener(of, name, addr string) (l node) {
	b.t.Helper()
	fatal.If(b.t, json.Unmarshal([]byte(b.marshal(b.listener(of))), &l))
	l["name"] = name
	b.setAddress(l, addr)
	b.listeners["listeners"] = append(b.listeners["listeners"].([]any), any(l))
	return l
}

// AwaitHealthy waits until all replicas of the region pass the health checks of the Envoy with this admin
// endpoint. Requests do not tell: where no replica passes, Envoy calls all of them.
func AwaitHealthy(t proc.T, admin string) {
	t.Helper()
	proc.Await(t, 30*time.Second, "all replicas pass the health checks of the PoP", func() string {
		m, err := measure.Scrape(t.Context(), &client, "http://"+admin+"/stats/prometheus")
		if err != nil {
			return err.Error()
		}
		of := func(stat string) float64 { return m["envoy_cluster_"+stat+`{envoy_cluster_name="weir_region"}`] }
		all, healthy, passed := of("membership_total"), of("membership_healthy"), of("health_check_success")
		if all == 0 || healthy != all || passed == 0 {
			return fmt.Sprintf("%v of %v replicas are healthy, %v health checks passed", healthy, all, passed)
		}
		return ""
	})
}
