package settings

import (
	_ "embed"
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

// Environment has a warning for each variable that begins with WEIR_ and that nothing reads. It is no error, so that an older
// release starts with the variables of a newer one. The items of environ are NAME=value, as those of [os.Environ].
func Environment(environ []string) (warnings []string) {
	programs, _, _ := strings.Cut(variables, "\n\n") // only these are suggested
	known, names := strings.Split(variables, "\n"), strings.Split(strings.ReplaceAll(programs, "WEIR_", ""), "\n")
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
		warnings = append(warnings, fmt.Sprintf("environment: %s: no such variable; %s", name, remedy))
	}
	return warnings
}
