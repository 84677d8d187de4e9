package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	resource = regexp.MustCompile(`(?ms)^resource "(\w+)" "(\w+)" \{\n(.*?)^\}`)

	// These have no tags.
	untagged = []string{
		"aws_appautoscaling_policy", "aws_autoscaling_policy", "aws_globalaccelerator_endpoint_group", "aws_globalaccelerator_listener",
		"aws_iam_role_policy", "aws_iam_role_policy_attachment", "aws_route", "aws_route_table_association", "terraform_data",
	}
)

// What can have tags has those of the variable tags, machines and tasks among it.
func TestTags(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.tf")) // the pattern is well-formed
		for _, file := range files {
			for _, m := range resource.FindAllStringSubmatch(string(fatal.Get(os.ReadFile(file))(t)), -1) {
				if !slices.Contains(untagged, m[1]) && !strings.Contains(m[3], "var.tags") {
					t.Errorf("%s: %s.%s has no tags = var.tags", dir, m[1], m[2])
				}
			}
		}
	}
}

var keys = regexp.MustCompile(`(?m)^  (?:program|agent)_files +?= \[(.*)\]$`)

// A task takes from its secret what weir admin bootstrap has made for its role: ECS starts no task that names another key,
// and a file without a key is missing in it.
func TestKeysOfSecrets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "terraform/modules/region/modules/service/main.tf"))
	lists := keys.FindAllStringSubmatch(string(text), -1)
	if err != nil || len(lists) != 2 {
		t.Fatalf("the module service has not the two lists of files: %v", err)
	}
	taken := strings.Split(strings.ReplaceAll(lists[0][1]+", "+lists[1][1], `"`, ""), ", ")
	slices.Sort(taken)
	dir := filepath.Join(t.TempDir(), "secrets")
	proc.Run(t, exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "admin", "bootstrap", "make", dir, "--regions", "eu,us", "--home", "eu"))
	for _, role := range []string{"eu/service", "us/service", "aggregator"} {
		entries, err := os.ReadDir(filepath.Join(dir, role))
		var made []string
		for _, entry := range entries {
			made = append(made, entry.Name())
		}
		if err != nil || !slices.Equal(made, taken) {
			t.Errorf("%s: weir admin bootstrap makes %q, and a task takes %q: %v", role, made, taken, err)
		}
	}
}
