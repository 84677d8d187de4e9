// Package scripts plays the scripts of testdata: `make e2e`. They take minutes and the whole
// machine, so no other target runs them.
package scripts

import (
	"os"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

// figuresEnv names the file to which the figures of all scripts are written.
const figuresEnv = "WEIR_FIGURES"

// TestScripts plays all scripts in one world, one after the other.
func TestScripts(t *testing.T) {
	path := os.Getenv(figuresEnv)
	if path == "" {
		t.Skip("`make e2e` plays the scripts")
	}
	scripts, err := regions.ReadAll("testdata")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := regions.Document(scripts)
	if err != nil {
		t.Fatal(err)
	}
	var all []regions.Row
	defer func() { write(t, path, all) }()
	w := regions.Start(t, proc.LogDir(t), rules)
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) {
			played := w.Play(s)
			rows := played.Judge()
			all = append(all, rows...)
			for _, r := range rows {
				if t.Logf("%+v", r); r.Outcome == regions.Fails {
					t.Errorf("%s: %s, want %s", r.Figure, r.Measured, r.Promise)
				}
			}
			t.Logf("answered with 200, by second:\n%s", played.Seconds())
		})
	}
}

// write writes the figures as a table.
func write(t *testing.T, path string, rows []regions.Row) {
	f, err := os.Create(path)
	if err == nil {
		err = regions.Print(f, rows)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
