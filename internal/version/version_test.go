package version

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
)

// The newest entry of the changelog is that of this version.
func TestChangelog(t *testing.T) {
	text := golden.Content(t, "../../CHANGELOG.md")
	heading := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(string(text))
	if heading == nil || "v"+heading[1] != Version {
		t.Errorf("the newest heading is %q, the version %s: they must be the same", heading, Version)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(Version) {
		t.Errorf("%s is no semantic version", Version)
	}
}

// The chart and the manifests beside it are of this version.
func TestDeployed(t *testing.T) {
	number := strings.TrimPrefix(Version, "v")
	for file, states := range map[string]string{
		"chart/Chart.yaml": "\nversion: " + number + "\nappVersion: " + Version + "\n", "envoy-gateway.yaml": "image: weir:" + number + " ", "istio-gateway.yaml": "image: weir:" + number + " ",
	} {
		if text := string(golden.Content(t, "../../deploy/"+file)); !strings.Contains(text, states) {
			t.Errorf("deploy/%s does not state %q", file, states)
		}
	}
}
