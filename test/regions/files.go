package regions

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// ReadAll reads the scripts of a directory, by name.
func ReadAll(dir string) ([]*Script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no scripts in " + dir)
	}
	var all []*Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := Parse(file, strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
