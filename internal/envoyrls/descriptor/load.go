package descriptor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of a directory. maxFolders is how deep folders may lie in each other, so that
// links which lead back end; maxFile bounds a file, in bytes, and maxTotal all files together, as what is
// read is compared with what was read before, and so kept.
const (
	maxFolders = 8
	maxFiles   = 10_000
	maxFile    = 16 << 20
	maxTotal   = 4 * maxFile
)

// Read reads a file, or a directory: every file in it and in its folders, whatever its name
// ends with, in the order of their paths. Names that begin with a dot are ignored,
// which with Kubernetes are the folders behind the links that it makes, and are what
// RUNTIME_IGNOREDOTFILES is for; links are followed. A directory without any file
// is an error, as that would take all limits away.
func Read(dir string) ([]File, error) {
	r := folder{dir: dir}
	err := r.entry(dir, -1)
	if err == nil && len(r.files) == 0 {
		err = fmt.Errorf("%s has no files; for no limits write a file with a domain: and no descriptors", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("rate limit configuration: %w", err)
	}
	return r.files, nil
}

// folder is a directory that is being read.
type folder struct {
	dir   string
	files []File
	total int64 // bytes of the files
}

func (r *folder) read(path string, depth int) error {
	if depth > maxFolders {
		return fmt.Errorf("%s is more than %d folders deep; does a link lead back?", path, maxFolders)
	}
	entries, err := os.ReadDir(path) // in the order of their names
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := r.entry(filepath.Join(path, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

// entry reads what is at path, be it behind a link.
func (r *folder) entry(path string, depth int) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return r.read(path, depth+1)
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("neither a file nor a folder")}
	case info.Size() > maxFile:
		return fmt.Errorf("%s has %d bytes, at most %d are read; split its domain into several", path, info.Size(), maxFile)
	case len(r.files) == maxFiles:
		return fmt.Errorf("%s has more than %d files; put several descriptors into one", r.dir, maxFiles)
	}
	if r.total += info.Size(); r.total > maxTotal {
		return fmt.Errorf("%s has more than %d bytes in all with %s; does it have files other than configuration?", r.dir, maxTotal, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r.files = append(r.files, File{Name: path, Data: data})
	return nil
}
