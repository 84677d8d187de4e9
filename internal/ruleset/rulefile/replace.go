package rulefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace puts data in the place of a file, or makes it. Whoever reads the file meanwhile gets
// all of the old one or all of the new one. An error leaves the old one.
func Replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
