package descriptor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFolders is how deep folders may lie in each other, so that links which lead
// back end.
const maxFolders = 8

// Load reads a directory and parses what is in it. The error is of type Errors when
// what the files say is wrong.
func Load(dir string, o Options) (*Config, error) {
	files, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return Parse(files, o)
}

// Read reads a directory: every file in it and in its folders, whatever its name
// ends with, in the order of their paths. Names that begin with a dot are ignored,
// which with Kubernetes are the folders behind the links that it makes, and are what
// RUNTIME_IGNOREDOTFILES is for; links are followed. A directory without any file
// is an error, as that would take all limits away.
func Read(dir string) ([]File, error) {
	files, err := readDir(nil, dir, 0)
	if err != nil {
		return nil, fmt.Errorf("rate limit configuration: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("rate limit configuration: %s has no files; for no limits write a file with a domain: and no descriptors", dir)
	}
	return files, nil
}

func readDir(files []File, dir string, depth int) ([]File, error) {
	if depth > maxFolders {
		return nil, fmt.Errorf("%s is more than %d folders deep; does a link lead back?", dir, maxFolders)
	}
	entries, err := os.ReadDir(dir) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files, err = readEntry(files, filepath.Join(dir, e.Name()), depth); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readEntry reads what is at path, be it behind a link.
func readEntry(files []File, path string, depth int) ([]File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return readDir(files, path, depth+1)
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("neither a file nor a folder")}
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read; split its domain into several", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return append(files, File{Name: path, Data: data}), nil
}
