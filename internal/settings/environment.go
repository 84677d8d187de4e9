package settings

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

//go:embed variables.txt
var variables string

// ofService matches what Kubernetes sets for each Service whose name begins with weir, and Docker for each link.
var ofService = regexp.MustCompile(`^WEIR_([A-Z0-9_]+_)?(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|PORT=\w+://|PORT_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?=|NAME=/|ENV_)`)

// Environment refuses variables that begin with WEIR_ and that nothing reads. The items of environ are NAME=value,
// as those of [os.Environ].
func Environment(environ []string) error {
	programs, _, _ := strings.Cut(variables, "\n\n") // only these are suggested
	known, names := strings.Split(variables, "\n"), strings.Split(strings.ReplaceAll(programs, "WEIR_", ""), "\n")
	var errs []error
	for _, item := range environ {
		name, _, _ := strings.Cut(item, "=")
		short, ours := strings.CutPrefix(name, "WEIR_")
		if !ours || slices.Contains(known, name) || ofService.MatchString(item) {
			continue
		}
		remedy := "unset it, or see --help for those that there are"
		if near := strict.Nearest(short, names); near != "" {
			remedy = "did you mean WEIR_" + near + "?"
		}
		errs = append(errs, fmt.Errorf("environment: %s: no such variable; %s", name, remedy))
	}
	return errors.Join(errs...)
}
