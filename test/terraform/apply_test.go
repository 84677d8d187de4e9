package terraform

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// applied is Terraform in a directory, with an emulated AWS.
type applied struct {
	t        *testing.T
	dir      string
	env      []string
	rollback string // ECS rolls updates back while this file exists
	vars     map[string]any
}

// newApplied begins with a copy of an example. It skips the test where the provider or moto is missing.
func newApplied(t *testing.T, name string) *applied {
	python := os.Getenv("WEIR_MOTO")
	provider, version := realProvider()
	if provider == "" || python == "" {
		const why = "NOT RUN: an apply in an emulated AWS, which needs the provider hashicorp/aws and moto (make terraform-apply-test)"
		proc.Figure(t, why)
		t.Skip(why)
	}
	dir := proc.NewDir(t, "cloud")
	a := &applied{t: t, rollback: filepath.Join(dir, "rollback")}
	images := proc.WriteFile(t, filepath.Join(dir, "amis.json"), `[{"ami_id": "ami-0123456789abcdef0", "name": "al2023-arm64", "description": "al2023", "owner_id": "137112412989",
		"public": true, "virtualization_type": "hvm", "architecture": "arm64", "state": "available", "platform": null, "image_type": "machine",
		"hypervisor": "xen", "root_device_name": "/dev/xvda", "root_device_type": "ebs", "sriov": "simple", "creation_date": "2026-01-01T00:00:00.000Z"}]`)
	port := fmt.Sprint(proc.FreePort(t))
	cloud := proc.Start(t, dir, "cloud", "env", "MOTO_AMIS_PATH="+images, "MOTO_ACCOUNT_ID=123456789012", "MOTO_IAM_LOAD_MANAGED_POLICIES=true",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "WEIR_ROLLBACK="+a.rollback,
		python, filepath.Join(proc.Root(t), "test/terraform/cloud/cloud.py"), "-H", "127.0.0.1", "-p", port)
	cloud.AwaitReady("http://127.0.0.1:" + port + "/moto-api/")
	edit, about := relaxing(version)
	a.dir, a.vars = example(t, name, edit), threeRegions()
	a.env = []string{"TF_CLI_CONFIG_FILE=" + mirror(t, provider, version), "AWS_ENDPOINT_URL=http://127.0.0.1:" + port,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=2", "AWS_RETRY_MODE=standard"}
	proc.Figure(t, "hashicorp/aws %s applies to moto; %s", version, about)
	return a
}

// release is the variables of a release: an image of replicas, and programs of PoPs.
func (a *applied) release(version int) {
	for name, of := range a.vars["programs"].(map[string]any) {
		of.(map[string]string)["uri"] = fmt.Sprintf("s3://programs/%d/%s", version, name)
	}
	for name, image := range a.vars["images"].(map[string]string) {
		a.vars["images"].(map[string]string)[name] = image[:strings.LastIndex(image, ":")] + fmt.Sprintf(":0.%d.0", version)
	}
	proc.WriteFile(a.t, filepath.Join(a.dir, "test.auto.tfvars.json"), marshal(a.t, a.vars))
}

// do runs Terraform and prints for how long.
func (a *applied) do(args ...string) (string, error) {
	began := time.Now()
	out, err := command(a.t, a.env, a.dir, args...).CombinedOutput()
	a.t.Logf("%q: %v", args, time.Since(began).Round(time.Second))
	return string(out), err
}

func (a *applied) must(args ...string) string {
	a.t.Helper()
	out, err := a.do(args...)
	if err != nil {
		a.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// interrupted applies, and interrupts that when so many resources are there.
func (a *applied) interrupted(made int) {
	a.t.Helper()
	cmd := command(a.t, a.env, a.dir, "apply", "-auto-approve")
	out := fatal.Get(cmd.StdoutPipe())(a.t)
	fatal.If(a.t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Creation complete") {
			if made--; made == 0 {
				fatal.If(a.t, cmd.Process.Signal(os.Interrupt))
			}
		}
	}
	if err := cmd.Wait(); err == nil || made > 0 {
		a.t.Fatalf("an apply that is interrupted: %v, %d resources too few", err, made)
	}
}

// edit changes main.tf of the example.
func (a *applied) edit(change func(string) string) {
	a.t.Helper()
	path := filepath.Join(a.dir, "main.tf")
	text := string(fatal.Get(os.ReadFile(path))(a.t))
	edited := change(text)
	if edited == text {
		a.t.Fatalf("main.tf is not as the test expects it:\n%s", text)
	}
	proc.WriteFile(a.t, path, edited)
}

func (a *applied) shards(n int) {
	a.t.Helper()
	a.edit(func(text string) string {
		return redis.ReplaceAllString(text, fmt.Sprintf("redis = merge(var.redis, { shards = %d, user", n))
	})
}

// destroy leaves nothing.
func (a *applied) destroy(what string) {
	a.t.Helper()
	all := strings.Count(a.must("state", "list"), "\n")
	out := a.must("destroy", "-auto-approve")
	if m := destroyed.FindStringSubmatch(out); m == nil || a.must("state", "list") != "" {
		a.t.Errorf("resources are left of %d:\n%s", all, out)
	} else {
		proc.Figure(a.t, "%s resources %s and destroyed", m[1], what)
	}
}

// inOrder fails unless the lines come in this order.
func inOrder(t *testing.T, text string, lines ...string) {
	t.Helper()
	rest := text
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("%q does not come, or not in this order, in\n%s", line, text)
		}
		rest = after
	}
}

const (
	tasks = "module.region.module.service.aws_ecs_service.this"
	pops  = "module.region.module.edge.aws_autoscaling_group.pop"
)

var redis = regexp.MustCompile(`redis +?= merge\(var\.redis, \{ (shards = \d+, )?user`)

var destroyed = regexp.MustCompile(`Destroy complete! Resources: (\d+) destroyed`)

// Modules are applied, updated, rolled back and destroyed. An apply that was interrupted is taken up again. A second plan finds
// nothing to change, and finds a change that was planted. PoPs change after the replicas, and not at all if ECS rolls these
// back. Fewer shards need a confirmation.
func TestApply(t *testing.T) {
	a := newApplied(t, "single-region")
	all := a.vars
	a.vars = map[string]any{"image_id": "ami-0123456789abcdef0", "secrets": map[string]any{"eu": all["secrets"].(map[string]any)["eu"]},
		"redis_user_groups": map[string]string{"eu": "weir-eu"}, "upstreams": all["upstreams"], "programs": all["programs"],
		"images":               map[string]string{"regional": "registry.example/weir-regional:0.1.0"},
		"prometheus_workspace": "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1",
		"admin_tokens":         "tokens: [{ name: ann, role: operator, sha256: " + strings.Repeat("0", 64) + " }]"}
	a.release(1)
	a.shards(5)
	a.must("init")
	a.interrupted(20)
	a.must("apply", "-auto-approve")
	a.must("plan", "-detailed-exitcode")

	a.shards(3)
	if out, err := a.do("plan"); err == nil || !strings.Contains(out, "Redis weir-eu has 5 shards, and shards is 3.") {
		t.Errorf("a plan with fewer shards: %v\n%s", err, out)
	}
	a.shards(5)

	a.release(2)
	inOrder(t, a.must("apply", "-auto-approve"), tasks+": Modifications complete", pops+": Modifying", pops+": Modifications complete")
	a.must("plan", "-detailed-exitcode")

	a.release(3)
	proc.WriteFile(t, a.rollback, "")
	out, err := a.do("apply", "-auto-approve")
	if err == nil || !strings.Contains(out, "ECS rolled weir-regional") || strings.Contains(out, pops+": Modifying") {
		t.Errorf("an apply whose new tasks do not start: %v\n%s", err, out)
	}
	_ = os.Remove(a.rollback)
	inOrder(t, a.must("apply", "-auto-approve"), tasks+": Modifications complete", pops+": Modifying")

	planted := filepath.Join(a.dir, "planted.tf")
	proc.WriteFile(t, planted, `resource "aws_cloudwatch_log_group" "planted" { tags = { at = timestamp() } }`)
	a.must("apply", "-auto-approve")
	if out, err := a.do("plan", "-detailed-exitcode"); err == nil || !strings.Contains(out, "Plan: 0 to add, 1 to change, 0 to destroy") {
		t.Errorf("a planted change is not found: %v\n%s", err, out)
	}

	a.destroy("applied, updated, rolled back")
}

var (
	ofAP     = regexp.MustCompile(`(?ms)^module "(ap|link_.._ap)" \{.*?^\}\n`)
	placesAP = strings.NewReplacer(", module.ap]", "]", ", ap = local.cidrs.ap", "")
)

// Three regions are applied, one of them is removed, and the other two stay as they are. The step before rules are applied makes
// Consul's servers, and no task that would wait for rules. An image for another processor is found before anything is made, and
// named with the remedy.
func TestApplyThreeRegions(t *testing.T) {
	a := newApplied(t, "three-regions")
	a.edit(func(text string) string { // moto has no Global Accelerator
		return strings.Replace(text, "= module.eu.cell\n", "= module.eu.cell\n  accelerator = false\n", 1)
	})
	a.release(1)
	a.must("init")
	first := a.must("plan", "-target=module.us.module.consul", "-target=module.link_eu_us")
	if !strings.Contains(first, "module.us.module.consul.aws_autoscaling_group.server") || strings.Contains(first, "aws_ecs_service") || strings.Contains(first, "aws_elasticache_replication_group") {
		t.Errorf("the first step of a first apply plans\n%s", first)
	}
	if out, err := a.do("plan", "-var=architecture=X86_64", "-target=module.us.module.consul"); err == nil ||
		!strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " "), "image_id ami-0123456789abcdef0 is for arm64, and architecture is X86_64: name an image for x86_64") {
		t.Errorf("an image for another processor: %v\n%s", err, out)
	}
	a.must("apply", "-auto-approve")
	a.must("plan", "-detailed-exitcode")

	a.edit(func(text string) string { return placesAP.Replace(ofAP.ReplaceAllString(text, "")) })
	if out := a.must("apply", "-auto-approve"); !strings.Contains(out, "0 added, 0 changed") && !strings.Contains(out, "0 added, 1 changed") {
		t.Errorf("the removal of a region changes the others:\n%s", out)
	}
	if left := a.must("state", "list"); strings.Contains(left, "module.ap.") || strings.Contains(left, "_ap.") {
		t.Errorf("the region is not removed:\n%s", left)
	}
	a.must("plan", "-detailed-exitcode")
	a.destroy("of two regions, after the removal of a third, applied")
}
