package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// Debug has the flags of the command that writes an archive for whoever looks into a problem.
type Debug struct {
	File         string `arg:"" optional:"" default:"weir-debug.tar.gz" help:"File to write; one that exists is not replaced."`
	Installation `embed:""`
}

// maxFile bounds a file of the archive, in bytes.
const maxFile = 64 << 20

// shown are the fields of a rule that the archive has: none of them has a value of a request, such as that of an override, or a secret.
var shown = []string{
	"name", "mode", "key", "hash", "limit", "limits", "algorithm", "align", "min_interval", "charge_denied", "scope", "fair", "consistency",
	"overdraft", "on_failure", "timeout", "lease", "headers", "retry_jitter", "live", "percent",
}

// Run writes the archive. What cannot be had is a line of problems.txt.
func (d *Debug) Run(stdout io.Writer) error {
	return d.Use(func(ctx context.Context, c *client.Client) error {
		files, problems := map[string][]byte{}, ""
		for name, get := range map[string]func() ([]byte, error){
			"status.json":   func() ([]byte, error) { s, err := look(ctx, c); return indented(s, err) },
			"rules.json":    func() ([]byte, error) { return compiled(ctx, c) },
			"versions.json": func() ([]byte, error) { return history(ctx, c) },
			"metrics.txt":   func() ([]byte, error) { return text(ctx, c, "/metrics") },
			"ready.txt":     func() ([]byte, error) { return text(ctx, c, "/readyz") },
		} {
			content, err := get()
			if err != nil {
				problems += fmt.Sprintf("%s: %v\n", name, err)
				continue
			}
			files[name] = content
		}
		if len(problems) > 0 {
			files["problems.txt"] = []byte(problems)
		}
		f, err := os.OpenFile(d.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err = errors.Join(archive(f, files), f.Close()); err == nil {
			_, err = fmt.Fprintf(stdout, "%swrote %s, without keys and secrets\n", problems, d.File)
		}
		return err
	})
}

func archive(out io.Writer, files map[string][]byte) error {
	packed := gzip.NewWriter(out)
	t := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := t.WriteHeader(&tar.Header{Name: "weir-debug/" + name, Mode: 0o600, Size: int64(len(files[name])), ModTime: time.Now()})
		if err == nil {
			_, err = t.Write(files[name])
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), packed.Close())
}

func indented(value any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(value, "", "  ")
}

func text(ctx context.Context, c *client.Client, path string) ([]byte, error) {
	answer, err := c.Send(ctx, client.Call{Path: path})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(io.LimitReader(answer.Body, maxFile))
}

// inForce are the rules in force of the program that answers, each as its fields.
type inForce struct {
	Version  string `json:"version"`
	Revision uint64 `json:"revision"`
	Error    string `json:"error,omitempty"`
	Rules    struct {
		Rules []map[string]json.RawMessage `json:"rules"`
	} `json:"rules"`
}

func rulesInForce(ctx context.Context, c *client.Client) (rules inForce, err error) {
	_, err = c.Do(ctx, client.Call{Path: "/rules"}, &rules)
	return rules, err
}

// compiled are the rules in force without what may be a value of a request.
func compiled(ctx context.Context, c *client.Client) ([]byte, error) {
	rules, err := rulesInForce(ctx, c)
	for _, r := range rules.Rules.Rules {
		maps.DeleteFunc(r, func(field string, _ json.RawMessage) bool { return !slices.Contains(shown, field) })
	}
	return indented(rules, err)
}

// history are the versions, without reasons and overrides, which may name a customer.
func history(ctx context.Context, c *client.Client) ([]byte, error) {
	all, err := Versions{c}.History(ctx)
	var kept []v1.Version
	for _, v := range all {
		kept = append(kept, v1.Version{Revision: v.Revision, When: v.When, RollbackTo: v.RollbackTo, Size: v.Size, SHA256: v.SHA256})
	}
	return indented(kept, err)
}
