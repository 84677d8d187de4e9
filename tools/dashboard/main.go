// Command dashboard builds dashboard/dist of dashboard/src, and licenses.txt of what is in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func build() error {
	if _, err := os.Stat("dashboard/node_modules"); err != nil {
		return errors.New("the packages are missing: npm ci --ignore-scripts --prefix dashboard")
	}
	if err := os.RemoveAll("dashboard/dist"); err != nil {
		return err
	}
	made := api.Build(api.BuildOptions{
		EntryPoints:       []string{"dashboard/src/main.tsx", "dashboard/src/index.html"},
		Outdir:            "dashboard/dist",
		Bundle:            true,
		Write:             true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Loader:            map[string]api.Loader{".html": api.LoaderCopy},
		ChunkNames:        "[name]",
		LegalComments:     api.LegalCommentsEndOfFile,
		LogLevel:          api.LogLevelWarning,
		Metafile:          true,
	})
	if n := len(made.Errors); n > 0 {
		return fmt.Errorf("%d mistakes", n)
	}
	text, err := licenses(made.Metafile)
	if err != nil {
		return err
	}
	return os.WriteFile("dashboard/dist/licenses.txt", []byte(text), 0o644)
}

// module finds the package that a file is of.
var module = regexp.MustCompile(`^.*node_modules/(?:@[^/]+/)?[^/]+/`)

// licenses are those of the packages that are in what was built, as they ask for it. Its lines "# NAME VERSION" are what
// tools/sbom lists.
func licenses(meta string) (string, error) {
	var made struct {
		Outputs map[string]struct {
			Inputs map[string]struct{ BytesInOutput int }
		}
	}
	if err := json.Unmarshal([]byte(meta), &made); err != nil {
		return "", err
	}
	var dirs []string
	for _, output := range made.Outputs {
		for file, of := range output.Inputs {
			if dir := module.FindString(file); dir != "" && of.BytesInOutput > 0 {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	text := strings.Builder{}
	text.WriteString("The dashboard has parts of these packages, under these licences.\n")
	for _, dir := range slices.Compact(dirs) {
		of, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			return "", err
		}
		var p struct{ Name, Version string }
		if err := json.Unmarshal(of, &p); err != nil {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
		license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "\n# %s %s\n\n%s\n", p.Name, p.Version, strings.TrimSpace(string(license)))
	}
	return text.String(), nil
}
