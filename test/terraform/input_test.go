package terraform

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// plan returns what a user sees who plans the example with one region with these variables, in
// one line. Nothing may be planned: the variables have mistakes.
func plan(t *testing.T, variables map[string]any) string {
	t.Helper()
	dir := filepath.Join(tree(t), "examples", "single-region")
	text, err := json.Marshal(variables)
	if err != nil {
		t.Fatal(err)
	}
	proc.WriteFile(t, filepath.Join(dir, "test.auto.tfvars.json"), string(text))
	must(t, dir, "init")
	out, err := run(t, dir, "plan")
	if err == nil || strings.Contains(out, "Plan:") {
		t.Errorf("bad input is planned: %v\n%s", err, out)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
}

// Each mistake is named with its remedy, all variables at once and before anything is planned,
// also where it is a module of a module that finds it.
func TestBadInput(t *testing.T) {
	arns := map[string]string{}
	for _, file := range []string{"ca.pem", "cert.pem", "key.pem", "client-cert.pem", "client-key.pem", "consul.json",
		"consul-ca.pem", "consul-cert.pem", "consul-key.pem", "consul-token", "redis-password"} {
		arns[file] = "the secret itself"
	}
	envoy := map[string]string{"uri": "https://programs/envoy", "sha256": "1"}
	for name, input := range map[string]struct {
		variables map[string]any
		messages  map[string]string // what is wrong: the message
	}{
		"of the example and its region": {map[string]any{
			"aws_region": "eu-central-9", "pops": map[string]any{"min": 0}, "upstreams": []string{},
			"redis":    map[string]string{"user_group_id": ""},
			"images":   map[string]string{"regional": "registry.example/weir-regional:latest"},
			"programs": map[string]any{"envoy": envoy},
			"secrets":  map[string]any{"pop": map[string]string{}, "consul": map[string]string{}, "service": map[string]string{}},
		}, map[string]string{
			"an unknown region":              "aws_region must be a region of AWS, such as eu-central-1.",
			"no PoP":                         "pops.min must be 1 or more, and pops.max not less than that",
			"nothing to protect":             "pop.upstreams is empty: name at least one host:port that the PoP protects.",
			"a Redis that everybody may use": "redis.user_group_id is empty: without a user group everybody",
			"an image that changes":          "images must have a tag that is not latest, or a digest",
			"a program that is missing":      "programs must have envoy, consul and weir.wasm.",
			"a secret that is missing":       "secrets.service must have ca.pem, cert.pem, key.pem,",
		}},
		"of the modules below": {map[string]any{
			"upstreams": []string{"app.internal"},
			"redis":     map[string]string{"node_type": "cache.t3.superlarge", "user_group_id": "weir"},
			"images":    map[string]string{"regional": "registry.example/weir-regional:0.1.0"},
			"programs":  map[string]any{"envoy": envoy, "consul": envoy, "weir.wasm": envoy},
			"secrets":   map[string]any{"pop": arns, "consul": arns, "service": arns},
		}, map[string]string{
			"a node that is not there":           "node_type must be a size of ElastiCache that can do cluster mode with TLS, such as cache.r7g.large:",
			"an upstream without a port":         "pop.upstreams and pop.replicas must be host:port, such as app.internal:8080.",
			"a program without checksum":         "each needs a uri s3://BUCKET/KEY and the sha256 of the file",
			"a secret in place of what names it": "map a file name to the ARN of a secret in Secrets Manager.",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := plan(t, input.variables)
			for wrong, want := range input.messages {
				if !strings.Contains(out, want) {
					t.Errorf("%s: no %q in\n%s", wrong, want, out)
				}
			}
			// What Terraform itself reports of what follows from a mistake, such as an index that is
			// not there, has no remedy.
			if strings.Count(out, "Error: Invalid ") != strings.Count(out, "Error: Invalid value for variable") {
				t.Errorf("an error that is no message about a variable in\n%s", out)
			}
		})
	}
}

// Each variable that must be given and is not is named.
func TestMissingVariables(t *testing.T) {
	out := plan(t, map[string]any{})
	for _, name := range []string{"upstreams", "images", "programs", "redis", "secrets"} {
		if want := `The root module input variable "` + name + `" is not set`; !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
