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
)

// Debug has the flags of the command that writes an archive for whoever looks into a problem.
type Debug struct {
	File         string `arg:"" optional:"" default:"weir-debug.tar.gz" help:"File to write; one that exists is not replaced."`
	Installation `embed:""`
}

// maxFile bounds a file of the archive, in bytes.
const maxFile = 64 << 20

// part is a file of the archive, and what is asked for it. Of JSON it has a list alone, and of its items some fields; without
// a list all.
type part struct {
	file, path, list string
	fields           []string
}

// parts are all files of the archive. No field of a rule among them has a value of a request, such as that of an override, or
// a secret; and reasons of versions, and overrides, may name a customer.
var parts = []part{
	{"metrics.txt", "/metrics", "", nil},
	{"ready.txt", "/readyz", "", nil},
	{"rules.json", "/rules", "rules.rules", []string{
		"name", "mode", "key", "hash", "limit", "limits", "algorithm", "align", "min_interval", "charge_denied", "scope", "fair", "consistency",
		"overdraft", "on_failure", "timeout", "lease", "headers", "retry_jitter", "live", "percent",
	}},
	{"settings.json", "/v1/settings", "", nil},
	{"status.json", "/v1/status", "", nil},
	{"versions.json", rulesPath + "/versions?limit=100", "items", []string{"revision", "when", "rollback_to", "size", "sha256"}},
}

// Run writes the archive. What cannot be had is a line of problems.txt.
func (d *Debug) Run(stdout io.Writer) error {
	return d.Use(func(ctx context.Context, c *client.Client) error {
		f, err := os.OpenFile(d.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		packed := gzip.NewWriter(f)
		archive, problems := tar.NewWriter(packed), ""
		add := func(name string, text []byte) {
			err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: "weir-debug/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}))
			_, wrong := archive.Write(text)
			err = errors.Join(err, wrong)
		}
		for i := range parts {
			if text, missing := parts[i].get(ctx, c); missing != nil {
				problems += fmt.Sprintf("%s: %v\n", parts[i].file, missing)
			} else {
				add(parts[i].file, text)
			}
		}
		if problems != "" {
			add("problems.txt", []byte(problems))
		}
		if err = errors.Join(err, archive.Close(), packed.Close(), f.Close()); err == nil {
			_, err = fmt.Fprintf(stdout, "%swrote %s, without keys and secrets\n", Escaped(problems, "\n"), d.File)
		}
		return err
	})
}

// get is the content of the file.
func (p *part) get(ctx context.Context, c *client.Client) ([]byte, error) {
	answer, err := c.Send(ctx, client.Call{Path: p.path})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFile))
	if err != nil || p.list == "" {
		return text, err
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	items, _ := at(all, p.list).([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		maps.DeleteFunc(fields, func(name string, _ any) bool { return !slices.Contains(p.fields, name) })
	}
	return json.MarshalIndent(items, "", "  ")
}
