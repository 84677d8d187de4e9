package rulefile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// FuzzParse: no file makes the parser fail otherwise than by mistakes with
// reasons, and what it takes survives being compiled.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"good_*.yaml", "good_*.json", "bad_*.yaml"} {
		for _, file := range files(f, filepath.Base(pattern)) {
			f.Add(content(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := rulefile.Parse("f", data)
		if err != nil {
			var mistakes strict.Errors
			if set != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
				t.Fatalf("set %v with error %#v", set, err)
			}
			for _, m := range mistakes {
				if m.Reason == "" || strings.Contains(m.Error(), "\n") && !strings.Contains(m.Error(), "YAML") {
					t.Errorf("reason %q", m.Error())
				}
			}
			return
		}
		again, err := read.JSON(set.Encode())
		if err != nil {
			t.Fatalf("compiled form %s is refused: %v", set.Encode(), err)
		}
		if again.Version != set.Version {
			t.Errorf("compiled form %s becomes %s", set.Encode(), again.Encode())
		}
	})
}
