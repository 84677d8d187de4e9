package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

var mirrored = regexp.MustCompile(`(?m)^\s*path\s*=\s*"(.*)"`)

// realProvider finds hashicorp/aws in the mirrors that TF_CLI_CONFIG_FILE and WEIR_PROVIDERS name, or where Terraform looks
// for plugins by itself, or under /opt: the newest from 5 on. A stand-in for its schema is small; what is real has
// hundreds of megabytes.
func realProvider() (dir, version string) {
	newest := 4
	home, _ := os.UserHomeDir() // empty: there is no such folder
	roots := []string{filepath.Join(home, ".terraform.d/plugins"), "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins"}
	optional, _ := filepath.Glob("/opt/*") // the pattern is well-formed
	for _, config := range []string{os.Getenv("TF_CLI_CONFIG_FILE"), os.Getenv("WEIR_PROVIDERS")} {
		text, _ := os.ReadFile(config) // missing: it names no mirror
		for _, m := range mirrored.FindAllStringSubmatch(string(text), -1) {
			roots = append(roots, m[1])
		}
	}
	for _, root := range append(roots, optional...) {
		found, _ := filepath.Glob(filepath.Join(root, "registry.*/hashicorp/aws/*", runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-aws_v*"))
		for _, path := range found {
			of := filepath.Base(filepath.Dir(filepath.Dir(path)))
			major, _ := strconv.Atoi(strings.Split(of, ".")[0]) // 0: no version
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 100<<20 && major > newest {
				dir, version, newest = filepath.Dir(path), of, major
			}
		}
	}
	return dir, version
}

// mirror makes a CLI configuration with this provider alone, under the names of both registries.
func mirror(t *testing.T, provider, version string) (config string) {
	t.Helper()
	root := t.TempDir()
	for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		dir := filepath.Join(root, registry, "hashicorp", "aws", version)
		fatal.If(t, os.MkdirAll(dir, 0o755))
		fatal.If(t, os.Symlink(provider, filepath.Join(dir, runtime.GOOS+"_"+runtime.GOARCH)))
	}
	return proc.WriteFile(t, filepath.Join(root, "terraformrc"), fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", root))
}

// relaxing is how configuration of the modules, which are for version 6, is edited for a version of the provider; nil: not at all.
func relaxing(version string) (edit *strings.Replacer, about string) {
	if major, _, _ := strings.Cut(version, "."); major != "5" {
		return nil, "nothing relaxed"
	}
	return strings.NewReplacer(`">= 6.0, < 7.0"`, `">= 5.0, < 7.0"`, "data.aws_region.current.region", "data.aws_region.current.name", "self.region", "self.name"),
		"relaxed: the constraint, to 5, and `name` in place of `region` of the data source aws_region"
}

// threeRegions are the variables of the example: secrets and redis_user_groups as weir admin bootstrap prints them.
func threeRegions() map[string]any {
	programs, secrets, groups, images := map[string]any{}, map[string]any{}, map[string]string{}, map[string]string{}
	for _, name := range []string{"envoy", "consul", "weir", "weir.wasm"} {
		programs[name] = map[string]string{"uri": "s3://programs/" + name, "sha256": strings.Repeat("0", 64)}
	}
	for name, region := range map[string]string{"eu": "eu-central-1", "us": "us-east-1", "ap": "ap-southeast-1"} {
		arns := map[string]string{}
		for _, role := range []string{"pop", "consul", "service"} {
			arns[role] = "arn:aws:secretsmanager:" + region + ":123456789012:secret:weir/" + name + "/" + role + "-AbCdEf"
		}
		secrets[name], groups[name], images[name] = arns, "weir-"+name, "ami-0123456789abcdef0"
	}
	secrets["aggregator"], groups["aggregator"] = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/aggregator-AbCdEf", "weir-aggregator"
	return map[string]any{"upstreams": []string{"app.internal:8443"}, "programs": programs, "image_ids": images, "secrets": secrets, "redis_user_groups": groups,
		"images": map[string]string{"regional": "registry.example/weir-regional:0.1.0", "global": "registry.example/weir-global:0.1.0"}}
}
