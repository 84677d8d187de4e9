package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// maxFiles bounds the entries of a directory.
const maxFiles = 1000

// tries is how often a directory is read whose links change meanwhile.
const tries = 5

// File is a file of configuration as it was read.
type File struct {
	Name string
	Data []byte
	// Modified is the time of its last change, or that of its directory if that is later; zero if it does not
	// matter.
	Modified time.Time
}

// ReadFile reads a file or pipe, and of one that is too large no more than a byte too much.
func ReadFile(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s: is a directory", path)
	}
	if err != nil {
		return File{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return File{}, err
	}
	if len(data) > MaxBytes {
		return File{}, strict.Errors{{File: path, Reason: tooLarge}}
	}
	return File{Name: path, Data: data, Modified: info.ModTime()}, nil
}

var tooLarge = fmt.Sprintf("has more than %d bytes; write fewer or shorter rules", MaxBytes)

// ReadFiles reads a rules file or, of a directory, all files *.yaml, *.yml and *.json in the order of their names, but
// for those whose name begins with a dot. They are of one version where a link leads to each version: the directory
// itself may be one, or ..data in it, as Kubernetes has it.
func ReadFiles(path string) ([]File, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		f, err := ReadFile(path)
		return []File{f}, err
	}
	var err error
	for range tries {
		var from, again string
		var files []File
		if from, err = version(path); err == nil {
			files, err = readDirectory(path, from)
			again, _ = version(path)
		}
		if again == from && from != "" {
			return files, err
		}
	}
	return nil, fmt.Errorf("%s: %w", path, cmp.Or(err, errors.New("changes all the time")))
}

// version is the directory that has the files now.
func version(dir string) (string, error) {
	data := filepath.Join(dir, "..data")
	if _, err := os.Lstat(data); errors.Is(err, os.ErrNotExist) {
		data = dir
	}
	return filepath.EvalSymlinks(data)
}

// readDirectory reads the files in from, which are named as those of dir.
func readDirectory(dir, from string) (files []File, err error) {
	d, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	info, err := d.Stat()
	if err == nil && len(names) > maxFiles {
		err = fmt.Errorf("%s: has more than %d files; is it a directory of rules?", dir, maxFiles)
	}
	if err != nil {
		return nil, err
	}
	total := 0
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue
		}
		path := filepath.Join(from, name)
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would not end
			return nil, fmt.Errorf("%s: is no file; remove it, or give it another name", filepath.Join(dir, name))
		}
		f, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		if total += len(f.Data); total > MaxBytes {
			return nil, strict.Errors{{File: dir, Reason: tooLarge}}
		}
		f.Name = filepath.Join(dir, name)
		if info.ModTime().After(f.Modified) { // a file may have been removed
			f.Modified = info.ModTime()
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: has no file *.yaml, *.yml or *.json; for no rules write one with rules: []", dir)
	}
	return files, nil
}
