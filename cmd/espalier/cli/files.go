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

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/simulation/deftest"
)

// maxFiles bounds the files of a directory.
const maxFiles = 10_000

// stdinName is how the standard input is shown as a file.
const stdinName = "stdin"

// displayName is how the files of the arguments are shown.
func displayName(names []string) string {
	shown := strings.Join(names, ", ")
	switch {
	case shown == "-":
		return stdinName
	case len(names) > 1:
		return "the input (" + shown + ")"
	}
	return shown
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
			resolved, err := filepath.EvalSymlinks(path)
			if err != nil {
				resolved = filepath.Clean(path) // such as a pipe of the shell
			}
			if seen[resolved] {
				continue
			}
			seen[resolved] = true
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
	out, err := filesBelow(name, func(path string) bool {
		isTest := strings.HasSuffix(path, deftest.FileSuffix) || strings.HasSuffix(path, deftest.ExpectedSuffix)
		return !isTest && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
	})
	if err == nil && len(out) > maxFiles {
		return nil, fmt.Errorf("%s has more than %d manifests", name, maxFiles)
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s has no .yaml, .yml or .json files", name)
	}
	return out, err
}

// filesBelow returns the files of a directory that match, and of the directories in it. Symbolic links to files are among them: a file that
// is silently left out would be one that is not checked.
func filesBelow(dir string, matches func(path string) bool) (out []string, err error) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		dir = filepath.Clean(dir) + string(filepath.Separator) // the directory itself may be a link
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !matches(path) {
			return err
		}
		mode := entry.Type()
		if mode&fs.ModeSymlink != 0 {
			target, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(entry.Name(), ".") {
				return nil // as Emacs locks a file
			}
			if err != nil {
				return err
			}
			mode = target.Mode()
		}
		if mode.IsRegular() {
			out = append(out, path)
		}
		return nil
	})
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
