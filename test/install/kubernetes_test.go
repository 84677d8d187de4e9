package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// schemas are Go modules that have schemas of resources, and the file in them.
var schemas = []struct{ module, file string }{
	{"k8s.io/kubernetes@v1.34.1", "api/openapi-spec/swagger.json"},
	{"istio.io/api@v1.27.1", "kubernetes/customresourcedefinitions.gen.yaml"},
	{"github.com/envoyproxy/gateway@v1.5.0", "charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_*.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_*monitors.yaml"},
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
	switch s := schema.(type) {
	case node:
		if format := s["format"]; format == "int-or-string" {
			s["type"] = []any{"integer", "string"}
		}
		_, named := s["properties"].(node)
		_, more := s["additionalProperties"]
		if named && !more && s["x-kubernetes-preserve-unknown-fields"] != true {
			s["additionalProperties"] = false
		}
		for _, of := range []string{"properties", "definitions"} {
			if children, ok := s[of].(node); ok {
				for _, child := range children {
					strict(child)
				}
			}
		}
		strict(s["items"])
		strict(s["additionalProperties"])
	}
}

// definitions reads the schemas of these files' resources, by "apiVersion kind".
func definitions(t *testing.T, paths ...string) map[string]*jsonschema.Schema {
	t.Helper()
	c, urls := jsonschema.NewCompiler(), map[string]string{}
	c.DefaultDraft(jsonschema.Draft4) // that of OpenAPI 3.0: exclusiveMaximum is a boolean
	add := func(url string, schema any) {
		if err := c.AddResource(url, schema); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range schemas {
		for _, path := range download(t, s.module, s.file) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, ".json") {
				swagger := kubernetes(t, text, urls)
				add("file:///kubernetes.json", swagger)
				continue
			}
			for url, schema := range custom(t, text) {
				add("file:///"+url, schema)
				urls[strings.ReplaceAll(url, "~", " ")] = "file:///" + url
			}
		}
	}
	all := map[string]*jsonschema.Schema{}
	for _, path := range paths {
		for _, d := range documents(t, path) {
			id := fmt.Sprint(d["apiVersion"], " ", d["kind"])
			url := urls[id]
			if url == "" {
				t.Fatalf("%s: no schema has %s", path, id)
			}
			schema, err := c.Compile(url)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			all[id] = schema
		}
	}
	return all
}

// kubernetes reads the definitions of Kubernetes itself, and notes where each kind is.
func kubernetes(t *testing.T, text []byte, urls map[string]string) node {
	t.Helper()
	var swagger struct{ Definitions node }
	if err := json.Unmarshal(text, &swagger); err != nil {
		t.Fatal(err)
	}
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
	for _, document := range strings.Split(strings.Join(lines, "\n"), "\n---\n") {
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						Schema node `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			schema := plain(t, v.Schema.Schema)
			strict(schema)
			fields := schema["properties"].(node)
			for _, all := range []string{"apiVersion", "kind", "metadata"} {
				fields[all] = node{}
			}
			all[crd.Spec.Group+"/"+v.Name+"~"+crd.Spec.Names.Kind] = schema
		}
	}
	return all
}

// plain is a tree of YAML as one of JSON.
func plain(t *testing.T, tree any) node {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	n, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n.(node)
}

const (
	regionManifest     = "deploy/kubernetes/region.yaml"
	globalManifest     = "deploy/kubernetes/global.yaml"
	monitoringManifest = "deploy/kubernetes/monitoring.yaml"
)

// manifests are all that are shipped.
var manifests = []string{regionManifest, globalManifest, monitoringManifest, istioGateway, "deploy/istio.yaml", "deploy/envoy-gateway.yaml"}

// Every resource has the fields of its schema and no others; a field with a mistake in its
// name is found.
func TestSchemas(t *testing.T) {
	all := definitions(t, manifests...)
	for _, path := range manifests {
		for _, d := range documents(t, path) {
			id := fmt.Sprint(d["apiVersion"], " ", d["kind"])
			if path == istioGateway {
				d["spec"].(node)["selector"] = node{} // the Deployment that it changes has one
			}
			if err := all[id].Validate(plain(t, d)); err != nil {
				t.Errorf("%s: %s: %v", path, id, err)
			}
			spec, ok := d["spec"].(node)
			if !ok {
				continue
			}
			wrong := maps.Clone(spec)
			wrong["replica"] = 3
			d["spec"] = wrong
			if all[id].Validate(plain(t, d)) == nil {
				t.Errorf("%s: %s: the schema lets spec.replica pass", path, id)
			}
		}
	}
}
