package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

var keys = regexp.MustCompile(`(?m)^  (?:program|agent)_files +?= \[(.*)\]$`)

// A task takes from its secret what weir bootstrap has made for its role: ECS starts no task that names another key,
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
	if out, err := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "bootstrap", "make", dir, "--regions", "eu,us", "--home", "eu").CombinedOutput(); err != nil {
		t.Fatalf("weir bootstrap: %v\n%s", err, out)
	}
	for _, role := range []string{"eu/service", "us/service", "global"} {
		entries, err := os.ReadDir(filepath.Join(dir, role))
		var made []string
		for _, entry := range entries {
			made = append(made, entry.Name())
		}
		if err != nil || !slices.Equal(made, taken) {
			t.Errorf("%s: weir bootstrap makes %q, and a task takes %q: %v", role, made, taken, err)
		}
	}
}
