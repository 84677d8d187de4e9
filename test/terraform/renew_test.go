package terraform

import (
	"crypto/tls"
	"encoding/base64"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A Consul server has another certificate when the secret of its role has one: the script that runs every
// hour fetches it and has the unit reloaded, and Consul reads it without a restart.
func TestConsulRenews(t *testing.T) {
	dir := open(t, proc.LogDir(t))
	names := users(t, dir)
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	gossip := base64.StdEncoding.EncodeToString(make([]byte, 32))
	ports, port := agentPorts(t, nil)
	m := realMachine(t, filepath.Join(dir, "server"), names)
	m.secret(secrets(t, a, gossip, "weir-consul"))
	texts, _ := bootstrap(t, map[string]any{"region": "eu", "directories": m.files, "consul": ports, "machine": map[string]any{
		"programs": m.programs(), "consul_secret": arn}})
	m.bootReal(texts["consul_user_data"])
	p := m.unit("weir-consul.service", 2*GiB).start(t, names, m.dir, "consul")
	presented := func() string {
		conn, err := tls.Dial("tcp", port("server"), &tls.Config{InsecureSkipVerify: true}) // which one it is is compared
		if err != nil {
			return ""
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	var first string
	p.AwaitUp(func() string {
		if first = presented(); first == "" {
			return "no certificate is presented"
		}
		return ""
	})

	// As ExecReload of the unit.
	m.executable(filepath.Join(m.cloud, "bin", "systemctl"), "#!/bin/sh\ncase $1 in reload) kill -HUP "+strconv.Itoa(p.PID())+" ;; esac\n")
	m.secret(secrets(t, a, gossip, "weir-consul"))
	if _, err := m.run(filepath.Join(m.dir, "etc", "fetch-secrets")); err != nil {
		t.Fatal(err)
	}
	proc.Eventually(t, time.Minute, "the new certificate is presented", func() bool { s := presented(); return s != "" && s != first })
	if p.Exited() {
		t.Error("Consul was restarted")
	}
}
