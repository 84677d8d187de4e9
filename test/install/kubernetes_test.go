package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// kubernetesVersions are those with whose schemas resources are compared: the oldest that the chart names,
// and the newest.
var kubernetesVersions = []string{"v1.32.13", "v1.37.2"}

// schemas are Go modules that have schemas of other resources, and the file in them.
var schemas = []struct{ module, file string }{
	{"istio.io/api@v1.31.4", "kubernetes/customresourcedefinitions.gen.yaml"},
	{"github.com/envoyproxy/gateway@v1.9.1", "charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_*.yaml"},
	{"github.com/envoyproxy/gateway@v1.9.1", "charts/gateway-crds-helm/templates/standard-gatewayapi-crds.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_*.yaml"},
	{"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/cert-manager.io_certificates.yaml"},
}

// download returns the files of a module that match a pattern.
func download(t *testing.T, module, pattern string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside of any module
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("%s: %v: %s", module, err, out)
	}
	files, globErr := filepath.Glob(filepath.Join(m.Dir, pattern))
	if err != nil || globErr != nil || len(files) == 0 {
		t.Fatalf("%s: %v %v %s: %d files", module, err, globErr, m.Error, len(files))
	}
	return files
}

// strict forbids fields that a schema does not name, in all of it.
func strict(schema any) {
	s, ok := schema.(node)
	if !ok {
		return
	}
	if s["format"] == "int-or-string" {
		s["type"] = []any{"integer", "string"}
	}
	if s["properties"] != nil && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	for _, of := range []string{"properties", "definitions"} {
		children, _ := s[of].(node)
		for _, child := range children {
			strict(child)
		}
	}
	strict(s["items"])
	strict(s["additionalProperties"])
}

// catalog has the schemas of one version of Kubernetes, and of what others add.
type catalog struct {
	compiler *jsonschema.Compiler
	urls     map[string]string // by "apiVersion kind"
}

func newCatalog(t *testing.T, version string) catalog {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make deploy-test: it downloads schemas")
	}
	c := catalog{jsonschema.NewCompiler(), map[string]string{}}
	c.compiler.DefaultDraft(jsonschema.Draft4) // that of OpenAPI 3.0: exclusiveMaximum is a boolean
	swagger := download(t, "k8s.io/kubernetes@"+version, "api/openapi-spec/swagger.json")[0]
	fatal.If(t, c.compiler.AddResource("file:///kubernetes.json", kubernetes(t, fatal.Get(os.ReadFile(swagger))(t), c.urls)))
	for _, s := range schemas {
		for _, path := range download(t, s.module, s.file) {
			for url, schema := range custom(t, fatal.Get(os.ReadFile(path))(t)) {
				fatal.If(t, c.compiler.AddResource("file:///"+url, schema))
				c.urls[strings.ReplaceAll(url, "~", " ")] = "file:///" + url
			}
		}
	}
	return c
}

// schema is that of an "apiVersion kind".
func (c catalog) schema(t *testing.T, id string) *jsonschema.Schema {
	t.Helper()
	url := c.urls[id]
	if url == "" {
		t.Fatalf("no schema has %s", id)
	}
	schema, err := c.compiler.Compile(url)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return schema
}

// kubernetes reads the definitions of Kubernetes itself, and notes where each kind is.
func kubernetes(t *testing.T, text []byte, urls map[string]string) node {
	t.Helper()
	var swagger struct{ Definitions node }
	fatal.If(t, json.Unmarshal(text, &swagger))
	for name, definition := range swagger.Definitions {
		strict(definition)
		kinds, _ := definition.(node)["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 {
			continue
		}
		kind := kinds[0].(node)
		version := strings.TrimPrefix(fmt.Sprint(kind["group"], "/", kind["version"]), "/")
		urls[fmt.Sprint(version, " ", kind["kind"])] = "file:///kubernetes.json#/definitions/" + name
	}
	return node{"definitions": swagger.Definitions}
}

// custom reads CustomResourceDefinitions; a file of a chart has lines of a template.
func custom(t *testing.T, text []byte) map[string]node {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.HasPrefix(l, "{{") })
	all := map[string]node{}
	for _, crd := range decoded(t, "resources", strings.Join(lines, "\n")) {
		spec, _ := crd["spec"].(node)
		versions, _ := spec["versions"].([]any) // other resources have none
		for _, v := range versions {
			schema := plain(t, at(t, v, "schema", "openAPIV3Schema"))
			strict(schema)
			fields := schema["properties"].(node)
			for _, all := range []string{"apiVersion", "kind", "metadata"} {
				fields[all] = node{}
			}
			all[fmt.Sprint(spec["group"], "/", at(t, v, "name"), "~", at(t, spec, "names", "kind"))] = schema
		}
	}
	return all
}

// plain is a tree of YAML as one of JSON.
func plain(t *testing.T, tree any) node {
	t.Helper()
	text := fatal.Get(json.Marshal(tree))(t)
	return fatal.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t).(node)
}

// Every resource, of each install of the chart and of what is shipped beside it, has the fields of its schema and no
// others, in each version of Kubernetes; a field with a mistake in its name is found.
func TestSchemas(t *testing.T) {
	for _, version := range kubernetesVersions {
		t.Run(version, func(t *testing.T) {
			c := newCatalog(t, version)
			for name, args := range installs {
				for _, d := range rendered(t, args...) {
					c.check(t, name, d)
				}
			}
			for _, path := range []string{istioGateway, "deploy/istio.yaml", "deploy/istio-listeners.yaml", "deploy/istio-extension.yaml",
				"deploy/envoy-gateway.yaml", "deploy/envoy-gateway-listeners.yaml", "deploy/envoy-gateway-extension.yaml"} {
				for _, d := range documents(t, path) {
					if path == istioGateway {
						d["spec"].(node)["selector"] = node{} // the Deployment that it changes has one
					}
					c.check(t, path, d)
				}
			}
		})
	}
}

func (c catalog) check(t *testing.T, in string, d node) {
	t.Helper()
	id := fmt.Sprint(d["apiVersion"], " ", d["kind"])
	schema := c.schema(t, id)
	if err := schema.Validate(plain(t, d)); err != nil {
		t.Errorf("%s: %s: %v", in, id, err)
	}
	if spec, ok := d["spec"].(node); ok {
		spec["replica"] = 3
		if schema.Validate(plain(t, d)) == nil {
			t.Errorf("%s: %s: the schema lets spec.replica pass", in, id)
		}
	}
}
