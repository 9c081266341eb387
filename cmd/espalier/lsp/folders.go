package lsp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

// Limits on what is read of the folders.
const (
	maxFolderFiles = 10_000
	maxFolderBytes = 64 << 20
)

// drive matches the path of a URI with a drive of Windows.
var drive = regexp.MustCompile(`^/[A-Za-z]:`)

// nameOf returns the name of a text: the path of a file, or the URI of anything else.
func nameOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	path := u.Path
	if drive.MatchString(path) {
		path = path[1:]
	}
	return filepath.Clean(filepath.FromSlash(path))
}

// uriOf returns the URI of a name.
func uriOf(name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	path := filepath.ToSlash(name)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// isRead says whether a file is one that the server reads.
func isRead(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
}

// isSkipped says whether a directory is not searched for files.
func isSkipped(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || name == "vendor"
}

// disk is what is read of folders. Its methods are not safe for concurrent use.
type disk struct {
	texts map[string]*language.Text
	bytes int
}

// read reads the files of folders. The error says what was left out.
func (d *disk) read(folders []string) error {
	d.texts, d.bytes = map[string]*language.Text{}, 0
	var problems []error
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				problems = append(problems, err)
				return nil
			case entry.IsDir() && path != folder && isSkipped(entry.Name()):
				return fs.SkipDir
			case entry.Type().IsRegular() && isRead(path):
				return d.add(path)
			}
			return nil
		})
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// add reads a file, also again. A file that is gone or cannot be read has no text.
func (d *disk) add(path string) error {
	if before := d.texts[path]; before != nil {
		d.bytes -= len(before.String())
		delete(d.texts, path)
	}
	raw, err := readBounded(path)
	if err != nil {
		return nil //nolint:nilerr // it is as if it were not there; the editor says so where it is open
	}
	if len(d.texts) >= maxFolderFiles || d.bytes+len(raw) > maxFolderBytes {
		return fmt.Errorf("the folders have more than %d files or %d bytes; the others are not read", maxFolderFiles, maxFolderBytes)
	}
	d.bytes += len(raw)
	d.texts[path] = language.NewText(string(raw))
	return nil
}

// readBounded reads at most what is checked of a file and one byte more, so that it is said that it is too large.
func readBounded(path string) (raw []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, language.MaxTextBytes+1))
}

// within says whether a path is in one of the folders, where files are read.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		rest, err := filepath.Rel(folder, path)
		if err != nil || rest == ".." || strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
			return false
		}
		return !slices.ContainsFunc(strings.Split(filepath.Dir(rest), string(filepath.Separator)), func(part string) bool { return part != "." && isSkipped(part) })
	})
}

// withOpen returns the texts of the files, with those of the editor in their place.
func (d *disk) withOpen(open map[string]*document) map[string]*language.Text {
	out := maps.Clone(d.texts)
	if out == nil {
		out = map[string]*language.Text{}
	}
	for name, o := range open {
		out[name] = o.text
	}
	return out
}
