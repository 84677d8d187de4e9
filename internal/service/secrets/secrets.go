// Package secrets reads the file of secrets under which keys are hashed.
package secrets

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// Named is a secret and its name, which is not secret.
type Named struct {
	ID     string // 1 to 64 letters, digits, '-' and '_'
	Secret rule.Secret
}

// most is how many secrets are valid at once: two during a rotation.
const most = 2

// Read reads a file of one or two lines, each with an id and 32 hexadecimal digits, the one in
// force first. A file that everybody may read is rejected.
func Read(path string) ([]Named, error) {
	text, err := content(path)
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

// content is the text of a file that not everybody may read.
func content(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("key secrets: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("key secrets: %s has the mode %04o, which lets every user of this machine read it; run chmod o-rwx", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("key secrets: %w", err)
	}
	return string(text), nil
}

func parse(path, text string) (all []Named, err error) {
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var n Named
		id, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		raw, err := hex.DecodeString(strings.TrimSpace(digits))
		switch {
		case err != nil || len(raw) != len(n.Secret) || id == "" || len(id) > rule.MaxName || strings.ContainsFunc(id, func(r rune) bool { return !rule.IsNameRune(r) }):
			return nil, fmt.Errorf("key secrets: %s:%d: is no secret; write a name and 32 hexadecimal digits, such as the output of: echo 1 $(openssl rand -hex 16)", path, i+1)
		case i >= most:
			return nil, fmt.Errorf("key secrets: %s has more than %d lines; write the current secret and the next or previous one", path, most)
		}
		n.ID = id
		copy(n.Secret[:], raw)
		if len(all) > 0 && (all[0].ID == n.ID || all[0].Secret == n.Secret) {
			return nil, fmt.Errorf("key secrets: %s:%d: has the name or the secret of the line before; write another one", path, i+1)
		}
		all = append(all, n)
	}
	return all, nil
}

// Watch makes a watcher of the file. apply puts the secrets in force. Log and metrics have their names
// alone.
func Watch(path string, apply func([]rule.Secret) error, log *slog.Logger, r *telemetry.Registry) *watch.Watcher {
	read := func() ([]rulefile.File, error) {
		text, err := content(path)
		return []rulefile.File{{Name: path, Data: []byte(text)}}, err
	}
	candidate := func(files []rulefile.File) (watch.Candidate, error) {
		all, err := parse(path, string(files[0].Data))
		if err != nil {
			return watch.Candidate{}, err
		}
		var names []string
		list := make([]rule.Secret, len(all))
		for i := range all {
			list[i] = all[i].Secret
			names = append(names, fmt.Sprintf("%s-%08x", all[i].ID, uint32(all[i].Secret.Fingerprint())))
		}
		return watch.Candidate{Version: strings.Join(names, ","), Apply: func() error { return apply(list) }}, nil
	}
	return watch.New(watch.Config{What: "key_secrets", Path: path, Read: read, Parse: candidate, Log: log, Metrics: r})
}

// Missing is why rules with hash: true are rejected without secrets.
func Missing(name string) error {
	return errors.New("rule " + name + ": hash: true needs the secret under which keys are hashed; give --key-secrets FILE, with a line such as the output of: echo 1 $(openssl rand -hex 16)")
}
