package terraform

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	mirrored = regexp.MustCompile(`(?m)^\s*path\s*=\s*"(.*)"`)
	toAdd    = regexp.MustCompile(`Plan: (\d+) to add, 0 to change, 0 to destroy`)
)

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

// aws answers the questions that a plan asks AWS, and notes all others: nothing else of AWS may be asked.
type aws struct {
	*httptest.Server
	mu     sync.Mutex
	others []string
}

func newAWS(t *testing.T) *aws {
	a := new(aws)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		region := strings.Split(scope+"///", "/")[2]
		switch action := r.FormValue("Action"); action {
		case "GetCallerIdentity":
			fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/weir</Arn><UserId>weir</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		case "DescribeAvailabilityZones":
			fmt.Fprint(w, `<DescribeAvailabilityZonesResponse><availabilityZoneInfo>`)
			for _, letter := range []string{"c", "a", "d", "b"} {
				fmt.Fprintf(w, `<item><zoneName>%s%s</zoneName><zoneId>%s</zoneId><zoneState>available</zoneState><zoneType>availability-zone</zoneType><optInStatus>opt-in-not-required</optInStatus><groupName>%s</groupName></item>`, region, letter, letter, region)
			}
			fmt.Fprint(w, `</availabilityZoneInfo></DescribeAvailabilityZonesResponse>`)
		case "DescribeImages":
			fmt.Fprintf(w, `<DescribeImagesResponse><imagesSet><item><imageId>%s</imageId><architecture>arm64</architecture><imageState>available</imageState></item></imagesSet></DescribeImagesResponse>`, r.FormValue("Filter.1.Value.1"))
		case "GetInstanceUefiData": // of an image, for an attribute that nothing reads
			fmt.Fprint(w, `<GetInstanceUefiDataResponse/>`)
		default:
			a.mu.Lock()
			defer a.mu.Unlock()
			a.others = append(a.others, r.Method+" "+r.URL.Path+" "+action)
			http.Error(w, "not here", http.StatusBadRequest)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// relaxed is configuration of the modules as a provider before 6 takes it.
func relaxed(_, text string) string {
	return strings.NewReplacer(`">= 6.0, < 7.0"`, `">= 5.0, < 7.0"`, "data.aws_region.current.region", "data.aws_region.current.name", "self.region", "self.name").Replace(text)
}

// relaxing is how configuration is edited for a version of the provider, and what that changes.
func relaxing(version string) (edit func(_, text string) string, about string) {
	if major, _, _ := strings.Cut(version, "."); major != "5" {
		return nil, "nothing relaxed"
	}
	return relaxed, "relaxed: the constraint, to 5, and `name` in place of `region` of the data source aws_region"
}

// awsEnv is the environment of Terraform with an AWS at a URL.
func awsEnv(config, url string) []string {
	return []string{"TF_CLI_CONFIG_FILE=" + config, "AWS_ENDPOINT_URL=" + url, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_MAX_ATTEMPTS=2", "AWS_RETRY_MODE=standard"}
}

// The provider itself plans three regions: what it validates and computes before AWS is asked is sound, which its
// schema and a mock do not show. Nothing is created, and nobody but this test is called.
func TestRealProvider(t *testing.T) {
	provider, version := realProvider()
	if provider == "" {
		const why = "NOT RUN: a plan with the provider hashicorp/aws itself, which is in no folder of plugins and in no mirror that TF_CLI_CONFIG_FILE names"
		figure(t, why)
		t.Skip(why)
	}
	edit, about := relaxing(version)
	cloud := newAWS(t)
	env := awsEnv(mirror(t, provider, version), cloud.URL)
	dir := example(t, "three-regions", edit)
	proc.WriteFile(t, filepath.Join(dir, "test.auto.tfvars.json"), marshal(t, threeRegions()))
	do := func(args ...string) string {
		out, err := runWith(t, env, dir, args...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return out
	}
	do("init")
	out := do("plan")
	m := toAdd.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no number of resources in\n%s", out)
	}
	if n, err := strconv.Atoi(m[1]); err != nil || n <= 400 {
		t.Errorf("%d resources are planned, want more than 400: %v", n, err)
	}
	figure(t, "hashicorp/aws "+version+" plans three regions: "+m[1]+" to add; "+about)

	// The step before rules are applied makes Consul's servers, and no task that would wait for rules.
	out = do("plan", "-target=module.us.module.consul", "-target=module.link_eu_us")
	if !strings.Contains(out, "module.us.module.consul.aws_autoscaling_group.server") || strings.Contains(out, "aws_ecs_service") || strings.Contains(out, "aws_elasticache_replication_group") {
		t.Errorf("the first step of a first apply plans\n%s", out)
	}
	// An image for another processor is found before anything is made, and named with the remedy.
	if out, err := runWith(t, env, dir, "plan", "-var=architecture=X86_64", "-target=module.us.module.consul"); err == nil ||
		!strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " "), "image_id ami-0123456789abcdef0 is for arm64, and architecture is X86_64: name an image for x86_64") {
		t.Errorf("an image for another processor: %v\n%s", err, out)
	}
	if len(cloud.others) > 0 {
		t.Errorf("AWS was asked for more than it has to be: %q", cloud.others)
	}
}

// figure has `make terraform-test` print a line.
func figure(t *testing.T, line string) {
	t.Helper()
	t.Log(line)
	if path := os.Getenv("WEIR_FIGURES"); path != "" {
		proc.WriteFile(t, path, line+"\n")
	}
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
