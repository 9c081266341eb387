package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/deftest"
	"github.com/espalier-dev/espalier/internal/source"
	"github.com/espalier-dev/espalier/internal/workspace"
)

// maxFiles bounds the files of a directory.
const maxFiles = 10_000

// stdinName is how the standard input is shown as a file.
const stdinName = "stdin"

// displayName is how a file of the arguments is shown.
func displayName(name string) string {
	if name == "-" {
		return stdinName
	}
	return name
}

// readFiles reads files, all YAML and JSON files below directories, and - for the standard input.
func readFiles(cmd *cobra.Command, names []string) ([]*workspace.File, error) {
	var out []*workspace.File
	seen := map[string]bool{}
	for _, name := range names {
		if name == "-" {
			text, err := readBounded(cmd.InOrStdin())
			if err != nil {
				return nil, fmt.Errorf("read the standard input: %w", err)
			}
			out = append(out, workspace.NewFile(stdinName, text))
			continue
		}
		paths, err := manifestsBelow(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if seen[filepath.Clean(path)] {
				continue
			}
			seen[filepath.Clean(path)] = true
			text, err := readManifest(path)
			if err != nil {
				return nil, err
			}
			out = append(out, workspace.NewFile(path, text))
		}
	}
	return out, nil
}

// manifestsBelow returns a file, or the manifests of a directory. Tests of definitions are none.
func manifestsBelow(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var out []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		isTest := strings.HasSuffix(path, deftest.FileSuffix) || strings.HasSuffix(path, deftest.ExpectedSuffix)
		if err == nil && entry.Type().IsRegular() && !isTest && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		if len(out) > maxFiles {
			return fmt.Errorf("%s has more than %d manifests", name, maxFiles)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s has no .yaml, .yml or .json files", name)
	}
	return out, err
}

func readManifest(path string) (text string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if text, err = readBounded(f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

// readBounded reads at most what a workspace accepts of a file, and one byte more, so that it says so.
func readBounded(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, source.MaxBytes+1))
	return string(raw), err
}
