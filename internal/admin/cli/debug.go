package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
)

// Debug has the flags of the command that writes an archive for whoever looks into a problem.
type Debug struct {
	File         string `arg:"" optional:"" default:"weir-debug.tar.gz" help:"File to write; one that exists is not replaced."`
	Installation `embed:""`
}

// maxFile bounds a file of the archive, in bytes.
const maxFile = 64 << 20

// parts are the files of the archive, and what is asked for each. None has a value of a request, or a secret.
var parts = [][2]string{{"metrics.txt", "/metrics"}, {"ready.txt", "/readyz"}, {"status.json", "/v1/status"}}

// Run writes the archive. A part that it cannot get is a line of problems.txt. If it gets no part, there is no archive.
func (d *Debug) Run(stdout io.Writer) error {
	return d.Use(func(ctx context.Context, c *client.Client) error {
		f, err := os.OpenFile(d.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("%w; name another file", err)
		}
		packed := gzip.NewWriter(f)
		archive, problems, had := tar.NewWriter(packed), "", 0
		add := func(name string, text []byte) {
			err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: "weir-debug/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}))
			_, wrong := archive.Write(text)
			err = errors.Join(err, wrong)
		}
		for _, part := range parts {
			if text, missing := get(ctx, c, part[1]); missing != nil {
				problems += fmt.Sprintf("%s: %v\n", part[0], missing)
			} else {
				add(part[0], text)
				had++
			}
		}
		if problems != "" {
			add("problems.txt", []byte(problems))
		}
		if had == 0 {
			err = errors.Join(err, fmt.Errorf("%s: no archive is written, because no part of it could be read:\n%s", d.File, problems), os.Remove(d.File))
		}
		if err = errors.Join(err, archive.Close(), packed.Close(), f.Close()); err == nil {
			_, err = fmt.Fprintf(stdout, "%sWrote %s. It has no keys and no secrets.\n", Escaped(problems, "\n"), d.File)
		}
		return err
	})
}

func get(ctx context.Context, c *client.Client, path string) ([]byte, error) {
	answer, err := c.Send(ctx, client.Call{Path: path})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(io.LimitReader(answer.Body, maxFile))
}
