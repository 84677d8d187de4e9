package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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

// newApplied begins with an example of one region. It skips the test where the provider or moto is missing.
func newApplied(t *testing.T) *applied {
	python := os.Getenv("WEIR_MOTO")
	provider, version := realProvider()
	if provider == "" || python == "" {
		const why = "NOT RUN: an apply in an emulated AWS, which needs the provider hashicorp/aws and moto (make terraform-apply-test)"
		figure(t, why)
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
	a.dir, a.env = example(t, "single-region", edit), awsEnv(mirror(t, provider, version), "http://127.0.0.1:"+port)
	all := threeRegions()
	a.vars = map[string]any{"image_id": "ami-0123456789abcdef0", "secrets": map[string]any{"eu": all["secrets"].(map[string]any)["eu"]}, "redis_user_groups": map[string]string{"eu": "weir-eu"}}
	for _, name := range []string{"upstreams", "programs"} {
		a.vars[name] = all[name]
	}
	figure(t, "hashicorp/aws "+version+" applies to moto; "+about)
	return a
}

// release is the variables of a release: an image of replicas, and programs of PoPs.
func (a *applied) release(version int) {
	for name, of := range a.vars["programs"].(map[string]any) {
		of.(map[string]string)["uri"] = fmt.Sprintf("s3://programs/%d/%s", version, name)
	}
	a.vars["images"] = map[string]string{"regional": fmt.Sprintf("registry.example/weir-regional:0.%d.0", version)}
	proc.WriteFile(a.t, filepath.Join(a.dir, "test.auto.tfvars.json"), marshal(a.t, a.vars))
}

// do runs Terraform and prints for how long.
func (a *applied) do(args ...string) (string, error) {
	began := time.Now()
	out, err := runWith(a.t, a.env, a.dir, args...)
	a.t.Logf("%q: %v", args, time.Since(began).Round(time.Second))
	return out, err
}

func (a *applied) must(args ...string) string {
	a.t.Helper()
	out, err := a.do(args...)
	if err != nil {
		a.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
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

var destroyed = regexp.MustCompile(`Destroy complete! Resources: (\d+) destroyed`)

// Modules are applied, updated, rolled back and destroyed. A second plan finds nothing to change, and finds a change that was
// planted. PoPs change after the replicas, and not at all if ECS rolls these back.
func TestApply(t *testing.T) {
	a := newApplied(t)
	a.release(1)
	a.must("init")
	a.must("apply", "-auto-approve")
	a.must("plan", "-detailed-exitcode")

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

	all := strings.Count(a.must("state", "list"), "\n")
	out = a.must("destroy", "-auto-approve")
	if m := destroyed.FindStringSubmatch(out); m == nil || a.must("state", "list") != "" {
		t.Errorf("resources are left of %d:\n%s", all, out)
	} else {
		figure(t, m[1]+" resources applied, updated, rolled back and destroyed")
	}
}
