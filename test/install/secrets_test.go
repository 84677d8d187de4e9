package install

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/bootstrap"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// What `weir admin bootstrap --kubernetes` prints are Secrets of Kubernetes, and all those that the chart and the pods of gateways name, with
// the files that they read.
func TestSecrets(t *testing.T) {
	dir := proc.NewDir(t, t.Name())
	s, _, err := bootstrap.Run(bootstrap.Options{Dir: filepath.Join(dir, "weir"), Regions: []string{"eu", "us"}, Home: "eu", Life: time.Hour}, time.Now())
	fatal.If(t, err)
	var out bytes.Buffer
	fatal.If(t, s.Kubernetes(&out, "eu", "istio-system"))
	schema, secrets := newCatalog(t, kubernetesVersions[0]).schema(t, "v1 Secret"), map[string]node{}
	for _, d := range decoded(t, "secrets", out.String()) {
		if err := schema.Validate(plain(t, d)); err != nil {
			t.Errorf("%v", err)
		}
		secrets[at(t, d, "metadata", "namespace").(string)+" "+at(t, d, "metadata", "name").(string)] = d["stringData"].(node)
	}
	for secret, files := range map[string]string{
		"istio-system weir-pop-tls": "ca.crt tls.crt tls.key", "weir weir-regional-tls": "ca.crt tls.crt tls.key",
		"weir weir-global-tls": "ca.crt tls.crt tls.key", "weir weir-redis": "password",
		"weir weir-key-secrets": "key-secrets",
	} {
		for _, name := range strings.Fields(files) {
			if text, ok := secrets[secret][name].(string); !ok || text == "" {
				t.Errorf("%s has no %s", secret, name)
			}
		}
	}
	pods := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), istioGateway)))(t)
	for _, text := range []string{render(t, set("aggregator.enabled=true", "keySecrets.secret=weir-key-secrets", "store=valkey")...), string(pods)} {
		for _, named := range strings.Split(text, "secretName: ")[1:] {
			name := strings.FieldsFunc(named, func(r rune) bool { return strings.ContainsRune(" ,}\"\n", r) })[0]
			if secrets["weir "+name] == nil && secrets["istio-system "+name] == nil {
				t.Errorf("the Secret %s is read, and not printed", name)
			}
		}
	}
	if err := s.Kubernetes(&out, "ap", "weir"); err == nil || !strings.Contains(err.Error(), "--kubernetes ap is not among the regions eu, us") {
		t.Errorf("of a region that is not there: %v", err)
	}
}
