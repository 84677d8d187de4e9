package terraform

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

var resource = regexp.MustCompile(`(?ms)^resource "(\w+)" "(\w+)" \{\n(.*?)^\}`)

// AWS has no tags for these.
var untagged = map[string]bool{
	"aws_appautoscaling_policy": true, "aws_autoscaling_policy": true, "aws_globalaccelerator_endpoint_group": true,
	"aws_globalaccelerator_listener": true, "aws_iam_role_policy": true, "aws_iam_role_policy_attachment": true,
	"aws_route": true, "aws_route_table_association": true,
}

// What can have tags has those of the variable tags, machines and tasks among it.
func TestTags(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.tf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range resource.FindAllStringSubmatch(string(text), -1) {
				if !untagged[m[1]] && !strings.Contains(m[3], "var.tags") {
					t.Errorf("%s: %s.%s has no tags = var.tags", dir, m[1], m[2])
				}
			}
		}
	}
}
