package main

import (
	"io"
	"strings"
	"testing"
)

// tls is a command line that takes only callers with these names.
func tls(names string) []string {
	return []string{"--rules", "r", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "ca", "--tls-client-san", names}
}

// Settings that weir-global rejects, and what it asks to change.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error; empty: they are accepted
	}{
		{nil, "rules: is missing; give the path of a rules file"},
		{[]string{"--rules", "rules.yaml"}, ""},
		{[]string{"--rules", "rules.yaml", "--lease-cache", "on"}, "lease_cache: on is for a region"},
		{[]string{"--rules", "rules.yaml", "--replicas", "0"}, "replicas: "},
		{tls("weir://region/{region}"), ""},
		{tls("{region}.a.example,spiffe://a/{region}"), ""},
		{tls("weir://region/{region},weir://operator"), `tls_client_san: "weir://operator" has {region} 0 times, which must be there once`},
		{tls("weir://region/eu"), `tls_client_san: "weir://region/eu" has {region} 0 times`},
		{tls("{region}.{region}"), `tls_client_san: "{region}.{region}" has {region} 2 times`},
		{[]string{"--rules", "rules.yaml", "--aggregator", "127.0.0.1:1"}, "unknown flag --aggregator"},
	} {
		_, err := load(c.args, io.Discard)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
