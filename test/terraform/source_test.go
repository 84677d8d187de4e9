package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// each has a function look at the text of all files with configuration of a directory below terraform.
func each(t *testing.T, f func(dir, text string)) {
	t.Helper()
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.tf")) // the pattern is well-formed
		all := ""
		for _, file := range files {
			text := fatal.Get(os.ReadFile(file))(t)
			all += string(text)
		}
		f(dir, all)
	}
}

var (
	called = regexp.MustCompile(`(?m)^\s*source\s*=\s*"([^"]*)"`)
	read   = regexp.MustCompile(`\$\{path\.(module|root|cwd)\}/([^"]*)"`)
)

// A module reads what lies inside its own directory, and calls modules of its own package; an example names where they
// are, in the version of this repository. So each of them works where it is copied or downloaded.
func TestNothingOutsideIsRead(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	each(t, func(dir, text string) {
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			address := strings.HasPrefix(m[1], "git::https://github.com/weirlimit/weir.git//terraform/modules/") && strings.HasSuffix(m[1], "?ref="+version.Version)
			ours := strings.HasPrefix(filepath.Join(dir, m[1]), "modules"+string(filepath.Separator))
			if m[1] != "hashicorp/aws" && !(strings.HasPrefix(dir, "examples") && address || strings.HasPrefix(dir, "modules") && strings.HasPrefix(m[1], ".") && ours) {
				t.Errorf("%s: source %s is none of the modules; an example names them by their address and the version %s", dir, m[1], version.Version)
			}
		}
		for _, m := range read.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, dir, m[2])); m[1] != "module" || strings.Contains(m[2], "..") || err != nil {
				t.Errorf("%s reads %s, which is not inside its directory: %v", dir, m[0], err)
			}
		}
		if strings.Contains(called.ReplaceAllString(text, ""), "../") {
			t.Errorf("%s reads a path above its directory", dir)
		}
	})
}

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
	each(t, func(dir, text string) {
		for _, m := range resource.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(untagged, m[1]) && !strings.Contains(m[3], "var.tags") {
				t.Errorf("%s: %s.%s has no tags = var.tags", dir, m[1], m[2])
			}
		}
	})
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
	if out, err := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "admin", "bootstrap", "make", dir, "--regions", "eu,us", "--home", "eu").CombinedOutput(); err != nil {
		t.Fatalf("weir admin bootstrap: %v\n%s", err, out)
	}
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
