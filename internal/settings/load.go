package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Program is what help shows of a program beside its settings.
type Program struct{ Name, Description string }

// Load reads the settings of a program from its arguments (without the program's name),
// its environment and its configuration file, which file has the path of when the
// arguments have been read. Help goes to out. The error is [ErrHelp] when help was asked
// for; else it names every field that is wrong and where it was set.
func Load(program Program, into any, file *string, args []string, out io.Writer) error {
	helped := false
	parser, err := kong.New(into,
		kong.Name(program.Name),
		kong.Description(program.Description),
		kong.DefaultEnvars("WEIR"),
		kong.Writers(out, out),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		return err
	}
	_, err = parser.Parse(args) // finds --config; the file's values become defaults
	if helped {
		return ErrHelp
	}
	if err != nil || *file == "" {
		return err
	}
	if err := applyFile(parser, *file); err != nil {
		return err
	}
	_, err = parser.Parse(args)
	return err
}

// ErrHelp is the error of [Load] after help was asked for and printed.
var ErrHelp = errors.New("help was asked for")

// applyFile makes the values of a file the defaults of their flags, so that flags
// and environment come before them.
func applyFile(parser *kong.Kong, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("%s: must be fields with values, such as `max_keys: 200000`: %w", path, err)
	}
	fields, names := map[string]*kong.Flag{}, []string{}
	for _, f := range parser.Model.Flags {
		if f.Name != "help" && f.Name != "config" { // these make sense on a command line only
			name := strings.ReplaceAll(f.Name, "-", "_")
			fields[name], names = f, append(names, name)
		}
	}
	var errs []error
	for _, name := range slices.SortedFunc(maps.Keys(values), func(a, b string) int { return values[a].Line - values[b].Line }) {
		value := values[name]
		if err := applyField(fields[name], names, &value); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", path, value.Line, name, err))
		}
	}
	return errors.Join(errs...)
}

// applyField makes a value the default of a flag; nil: names are those that there are.
func applyField(flag *kong.Flag, names []string, value *yaml.Node) error {
	switch {
	case flag == nil:
		return fmt.Errorf("is not a field; the fields are %s", strings.Join(names, ", "))
	case value.Kind == yaml.SequenceNode && flag.IsSlice():
		items := make([]string, len(value.Content))
		for i, item := range value.Content {
			if items[i] = item.Value; item.Kind != yaml.ScalarNode || item.Tag == "!!null" || strings.Contains(item.Value, ",") {
				return errors.New("must be a list of single values without commas")
			}
		}
		value = &yaml.Node{Kind: yaml.ScalarNode, Value: strings.Join(items, ",")}
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
