package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file in an archive.
type entry struct {
	name    string // with / between its parts; a directory's ends with one
	content []byte
	program bool // may be executed
	owner   int  // user and group
}

// tarball is an archive of files in the order of their names. Of a file it has name, content and whether it is a
// program: owner, mode and time of the file on this machine are not in it.
func tarball(entries []entry, at time.Time) ([]byte, error) {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)), Mode: 0o644, ModTime: at, Uid: e.owner, Gid: e.owner, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if e.program || h.Typeflag == tar.TypeDir {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// compressed is an archive as .tar.gz. Go's writer puts neither a name nor a time into it.
func compressed(archive []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(archive)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// tree are the files of a directory of the repository, and of those below it, by their names in it. They are those that
// git has: what lies beside them may be a secret. A symbolic link to a file is that file.
func (r *release) tree(dir string) (all []entry, err error) {
	dir = filepath.Join(r.root, dir)
	names, err := output(dir, "git", append(ours, "ls-files", "-z")...)
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(strings.TrimSuffix(names, "\x00"), "\x00") {
		e, failed := file(filepath.Join(dir, name), name)
		err, all = errors.Join(err, failed), append(all, e)
	}
	return all, err
}

// file is one file of the repository or of what was built, with another name.
func file(from, name string) (entry, error) {
	about, err := os.Stat(from)
	if err != nil {
		return entry{}, err
	}
	content, err := os.ReadFile(from)
	return entry{name: name, content: content, program: about.Mode()&0o100 != 0}, err
}
