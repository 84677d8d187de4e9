package dashboard

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/test/kit/proc"
)

// keys are the tokens of those who may call: one of each role, named as it, and those of robot, who is an admin as long as the
// test runs, for its own calls.
type keys struct {
	t      *testing.T
	file   string
	tokens map[string]string // by name
	items  map[string]string // of the file
}

func newKeys(t *testing.T) *keys {
	k := &keys{t, filepath.Join(t.TempDir(), "tokens.yaml"), map[string]string{}, map[string]string{}}
	never := time.Now().AddDate(1, 0, 0)
	for name, role := range map[string]string{"viewer": "viewer", "admin": "admin", "robot": "admin"} {
		k.add(name, role, never)
	}
	k.add("former", "admin", time.Now().AddDate(-1, 0, 0))
	return k
}

// add makes a token that ends.
func (k *keys) add(name, role string, until time.Time) {
	token, sum := access.NewToken()
	k.tokens[name], k.items[name] = token, fmt.Sprintf("- { name: %s, role: %s, until: %s, sha256: %q }\n", name, role, until.UTC().Format(time.RFC3339), sum)
	k.write()
}

func (k *keys) end(name string) {
	k.items[name] = regexp.MustCompile(`until: \S+,`).ReplaceAllString(k.items[name], "until: "+time.Now().UTC().Format(time.RFC3339)+",")
	k.write()
}

// revoke takes a token out of the file.
func (k *keys) revoke(name string) {
	delete(k.items, name)
	k.write()
}

func (k *keys) write() {
	text := "tokens:\n"
	for _, item := range k.items {
		text += item
	}
	proc.WriteFile(k.t, k.file, text)
}

func (s *system) logIn(token string) {
	s.Helper()
	s.See("The token stays in this tab.")
	s.Fill("Token", token)
	s.Click("Log in")
}
