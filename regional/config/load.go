package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Load reads the configuration of a process from its arguments (without the
// program's name), its environment and its configuration file. Help goes to out.
// The error is [ErrHelp] when help was asked for; else it names every field that
// is wrong and where it was set.
func Load(args []string, out io.Writer) (*Config, error) {
	c := new(Config)
	helped := false
	parser, err := kong.New(c,
		kong.Name("weir-regional"),
		kong.Description("The region of Weir: grants leases on rate limits to points of presence."),
		kong.DefaultEnvars("WEIR"),
		kong.Writers(out, out),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		return nil, err
	}
	_, err = parser.Parse(args) // finds --config; the values of the file come in below it
	if helped {
		return nil, ErrHelp
	}
	if err == nil && c.Config != "" {
		if err = applyFile(parser, c.Config); err == nil {
			_, err = parser.Parse(args)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, c.Check()
}

// ErrHelp says that help was asked for and printed.
var ErrHelp = errors.New("help was asked for")

// applyFile makes the values of a file the defaults of their flags, so that flags
// and environment are stronger.
func applyFile(parser *kong.Kong, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if doc.Kind == 0 { // empty, or comments only
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: must be fields with values, such as `max_keys: 200000`", path, root.Line)
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := applyField(parser, seen, key.Value, value); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", path, key.Line, key.Value, err))
		}
	}
	return errors.Join(errs...)
}

func applyField(parser *kong.Kong, seen map[string]bool, name string, value *yaml.Node) error {
	if seen[name] {
		return errors.New("is there twice; keep one")
	}
	seen[name] = true
	flag := flagOf(parser, name)
	switch {
	case flag == nil:
		return fmt.Errorf("is not a field; the fields are %s", strings.Join(fields(parser), ", "))
	case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
		return errors.New("must be a single value")
	}
	trial := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value.Value}), trial); err != nil {
		return err
	}
	flag.Default, flag.HasDefault = value.Value, true
	return nil
}

func flagOf(parser *kong.Kong, name string) *kong.Flag {
	for _, f := range parser.Model.Flags {
		if isField(f) && fieldName(f) == name {
			return f
		}
	}
	return nil
}

func fields(parser *kong.Kong) (names []string) {
	for _, f := range parser.Model.Flags {
		if isField(f) {
			names = append(names, fieldName(f))
		}
	}
	return names
}

// isField excludes what only makes sense on a command line.
func isField(f *kong.Flag) bool { return f.Name != "help" && f.Name != "config" }

func fieldName(f *kong.Flag) string { return strings.ReplaceAll(f.Name, "-", "_") }
