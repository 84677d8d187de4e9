package measure

import (
	"fmt"
	"strconv"
	"strings"
)

// GoBench is one benchmark of a Go package, run several times.
type GoBench struct {
	Package string
	Name    string // without "Benchmark" and without the number of CPUs
	Nanos   Sample // per operation
	Allocs  Sample // per operation; empty unless run with -benchmem
}

// ParseGoBench reads what `go test -bench` prints. Lines that are no results are
// passed over; a result that cannot be read is an error.
func ParseGoBench(text string) ([]*GoBench, error) {
	var benches []*GoBench
	byName := map[string]*GoBench{}
	pkg := ""
	for line := range strings.Lines(text) {
		if name, found := strings.CutPrefix(line, "pkg: "); found {
			pkg = strings.TrimSpace(name)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 && isNumber(name[at+1:]) {
			name = name[:at]
		}
		b := byName[pkg+name]
		if b == nil {
			b = &GoBench{Package: pkg, Name: name}
			byName[pkg+name] = b
			benches = append(benches, b)
		}
		if err := b.add(fields[2:]); err != nil {
			return nil, fmt.Errorf("go test -bench: %q: %w", line, err)
		}
	}
	return benches, nil
}

// add reads pairs of value and unit.
func (b *GoBench) add(pairs []string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		v, err := strconv.ParseFloat(pairs[i], 64)
		if err != nil {
			return err
		}
		switch pairs[i+1] {
		case "ns/op":
			b.Nanos = append(b.Nanos, v)
		case "allocs/op":
			b.Allocs = append(b.Allocs, v)
		}
	}
	return nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}
