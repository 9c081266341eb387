package catalog

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/naming"
)

// IndexFile is the index in a file for UseFile.
const IndexFile = "types.tsv"

// Limits of files for UseFile, in bytes.
const (
	maxFile   = 64 << 20
	maxIndex  = 4 << 20
	maxSchema = 16 << 20
)

// UseFile replaces the embedded schemas by the schemas of a file, which 'espalier aws schema update' writes. It is
// called before anything else of this package, and not concurrently.
func UseFile(path string) error {
	p, err := load(path)
	if err != nil {
		return fmt.Errorf("read the schemas of resource types from %s: %w", path, err)
	}
	read = func() parsed { return p }
	return nil
}

func load(path string) (parsed, error) {
	file, err := os.Open(path)
	if err != nil {
		return parsed{}, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return parsed{}, err
	}
	if len(raw) > maxFile {
		return parsed{}, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	content := string(raw)
	files, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	if err != nil {
		return parsed{}, err
	}
	index, err := readIndex(files)
	if err != nil {
		return parsed{}, err
	}
	p, err := parse(index)
	if err != nil {
		return parsed{}, err
	}
	if len(p.names) == 0 || !slices.IsSorted(p.names) {
		return parsed{}, fmt.Errorf("its %s has no types, or is not sorted", IndexFile)
	}
	if err := naming.Check(p.names); err != nil {
		return parsed{}, err
	}
	p.archive = content
	if err := p.locate(files); err != nil {
		return parsed{}, err
	}
	return p.withHandlers(), nil
}

func readIndex(files *zip.Reader) (string, error) {
	file, err := files.Open(IndexFile)
	if err != nil {
		return "", err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxIndex))
	return string(raw), err
}

// The file decides where each schema is, not its index.
func (p *parsed) locate(files *zip.Reader) error {
	byName := map[string]*zip.File{}
	for _, file := range files.File {
		byName[file.Name] = file
	}
	for i, name := range p.names {
		file := byName[strings.ReplaceAll(name, "::", "-")+".json"]
		if file == nil || file.Method != zip.Deflate || file.UncompressedSize64 > maxSchema || file.CompressedSize64 > uint64(len(p.archive)) {
			return fmt.Errorf("the schema of %s is missing, too large or not compressed with deflate", name)
		}
		offset, err := file.DataOffset()
		if err != nil || offset < 0 || offset+int64(file.CompressedSize64) > int64(len(p.archive)) {
			return fmt.Errorf("the schema of %s is damaged", name)
		}
		p.entries[i].offset, p.entries[i].compressed, p.entries[i].size = int(offset), int(file.CompressedSize64), int(file.UncompressedSize64)
	}
	return nil
}
