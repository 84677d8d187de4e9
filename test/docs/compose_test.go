package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	composeFile     = "docker-compose.yml"
	composeDocument = "docs/compose.md"
)

// composeWords are the commands and flags of `docker compose` that documents use.
var composeWords = []string{"up", "down", "stop", "start", "exec", "--build", "--wait", "-v", "--profile"}

// checkCompose judges a command of `docker compose`: what it names is a service or a profile, or after exec a command of
// weir and its flags.
func checkCompose(t *testing.T, command string, programs map[string][]string) error {
	t.Helper()
	var file struct {
		Services map[string]struct{ Profiles []string }
	}
	if err := yaml.Unmarshal([]byte(read(t, composeFile)), &file); err != nil {
		return err
	}
	known := slices.Clone(composeWords)
	for name, s := range file.Services {
		known = append(append(known, name), s.Profiles...)
	}
	command, within, _ := strings.Cut(command, " /weir ")
	if words := strings.Fields(within); len(words) > 0 {
		known = append(known, programs["weir "+words[0]]...)
		words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, "--") })
		command += " " + strings.Join(words, " ")
	}
	for _, word := range strings.Fields(command)[2:] {
		if !slices.Contains(known, word) {
			return fmt.Errorf("%s: %s is no service, profile, command or flag that is known here", command, word)
		}
	}
	return nil
}
