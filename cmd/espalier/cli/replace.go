package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// replaceFile writes a file of mode 0600, by way of a temporary one, so that an existing file stays unchanged
// if write fails. A pipe or a device is not replaced, but written to.
func replaceFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".espalier-") // of mode 0600
	if err != nil {
		return err
	}
	if err = errors.Join(write(file), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
