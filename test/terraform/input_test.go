package terraform

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// plan returns what a user sees who plans the example with one region with these variables, in
// one line. Nothing may be planned: the variables have mistakes.
func plan(t *testing.T, variables map[string]any) string {
	t.Helper()
	dir := example(t, "single-region", nil)
	text := fatal.Get(json.Marshal(variables))(t)
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
	for _, role := range []string{"pop", "consul", "service"} {
		arns[role] = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/" + role + "-AbCdEf"
	}
	envoy := map[string]string{"uri": "https://programs/envoy", "sha256": "1"}
	for name, input := range map[string]struct {
		variables map[string]any
		messages  map[string]string // what is wrong: the message
	}{
		"of the example and its region": {map[string]any{
			"pops": map[string]any{"min": 0}, "upstreams": []string{}, "architecture": "amd64", "image_id": "newest",
			"redis_user_groups": map[string]string{"eu": ""},
			"images":            map[string]string{"regional": "registry.example/weir-regional:latest"},
			"programs":          map[string]any{"envoy": envoy},
			"secrets":           map[string]any{"eu": map[string]string{"pop": "the secret itself", "consul": "another one", "service": "a third"}},
		}, map[string]string{
			"no PoP":                             "pops.min must be 1 or more, and pops.max not less than that",
			"nothing to protect":                 "pop.upstreams is empty: name at least one host:port that the PoP protects.",
			"a processor that is not there":      "architecture must be ARM64 or X86_64",
			"an image without an id":             "image_id must be the id of a machine image, such as ami-",
			"a Redis that everybody may use":     "redis.user_group_id is empty: without a user group everybody",
			"an image that changes":              "images must have a tag that is not latest, or a digest",
			"a program that is missing":          "programs must have envoy, consul, weir, and weir.wasm, or with pop.filter = native weir.so.",
			"a secret in place of what names it": "secrets must be ARNs of secrets in Secrets Manager, which weir admin bootstrap prints",
		}},
		"of the modules below": {map[string]any{
			"upstreams": []string{"app.internal"}, "image_id": "ami-0123456789abcdef0",
			"redis": map[string]string{"node_type": "cache.t3.superlarge", "engine_version": "7.2"}, "redis_user_groups": map[string]string{"eu": "weir"},
			"images":   map[string]string{"regional": "registry.example/weir-regional:0.1.0"},
			"programs": map[string]any{"envoy": envoy, "consul": envoy, "weir": envoy, "weir.wasm": envoy},
			"secrets":  map[string]any{"eu": arns},
		}, map[string]string{
			"a node that is not there":   "node_type must be a size of ElastiCache that can do cluster mode with TLS, such as cache.r7g.large:",
			"a version that is too old":  "engine_version must be a version of Valkey from 8.0 on",
			"an upstream without a port": "pop.upstreams and pop.replicas must be host:port, such as app.internal:8080.",
			"a program without checksum": "each needs a uri s3://BUCKET/KEY and the sha256 of the file",
		}},
		"of another region": {map[string]any{
			"upstreams": []string{"app.internal:8080"}, "image_id": "ami-0123456789abcdef0", "aws_region": "us-east-1",
			"redis_user_groups": map[string]string{"eu": "weir"},
			"images":            map[string]string{"regional": "registry.example/weir-regional:0.1.0"},
			"programs":          map[string]any{},
			"secrets":           map[string]any{"eu": arns},
		}, map[string]string{"secrets that a machine cannot read": "secrets must be in aws_region: a machine asks Secrets Manager of its own region."}},
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
