// Package build makes the archive and the index of the schemas of resource types from the Python package that
// has them. Download needs Python's pip, which knows the configured package index.
package build

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

const (
	pack      = "cfn-lint"
	canonical = "us-east-1"
	root      = "cfnlint/data/schemas/"
)

// Wheel is a package as it is downloaded.
type Wheel struct {
	Version string
	Content []byte
}

// SHA256 is the hash of the package.
func (w Wheel) SHA256() string { return fmt.Sprintf("%x", sha256.Sum256(w.Content)) }

// Schemas are the archive and the index of the package catalog.
type Schemas struct{ Archive, Index []byte }

// From makes the archive and the index.
func From(w Wheel) (Schemas, error) {
	files, err := zip.NewReader(bytes.NewReader(w.Content), int64(len(w.Content)))
	if err != nil {
		return Schemas{}, err
	}
	schemas, err := readSchemas(&contents{files, maxContent})
	if err != nil {
		return Schemas{}, err
	}
	if err := naming.Check(schemas.names()); err != nil {
		return Schemas{}, err
	}
	archive, err := compress(schemas)
	if err != nil {
		return Schemas{}, err
	}
	index, err := writeIndex(w.Version, w.SHA256(), schemas, archive)
	return Schemas{archive, index}, err
}

// File returns the archive with the index in it, which catalog.UseFile reads.
func (s Schemas) File() ([]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(s.Archive), int64(len(s.Archive)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, file := range archive.File {
		if err := w.Copy(file); err != nil {
			return nil, err
		}
	}
	entry, err := w.Create(catalog.IndexFile)
	if err != nil {
		return nil, err
	}
	if _, err := entry.Write(s.Index); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// Open reads a package from a file.
func Open(file string) (Wheel, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Wheel{}, err
	}
	parts := strings.Split(filepath.Base(file), "-") // cfn_lint-1.58.0-py3-none-any.whl
	if len(parts) < 3 || strings.ReplaceAll(parts[0], "_", "-") != pack {
		return Wheel{}, fmt.Errorf("%s is not named like a wheel of %s", file, pack)
	}
	return Wheel{parts[1], raw}, nil
}

// Download downloads the package: the newest version, unless one is given. If a hash is given, another file is
// refused.
func Download(ctx context.Context, version, sum string) (Wheel, error) {
	temporary, err := os.MkdirTemp("", "schemas")
	if err != nil {
		return Wheel{}, err
	}
	defer os.RemoveAll(temporary)
	what := pack
	if version != "" {
		what += "==" + version
	}
	args := []string{"-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", temporary}
	if version != "" && sum != "" { // pip takes a hash for a pinned version only
		what += " --hash=sha256:" + sum
		args = append(args, "--require-hashes")
	}
	requirements := filepath.Join(temporary, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(what+"\n"), 0o600); err != nil {
		return Wheel{}, err
	}
	pip := exec.CommandContext(ctx, "python3", append(args, "--requirement", requirements)...)
	pip.Stdout, pip.Stderr = os.Stderr, os.Stderr
	if err := pip.Run(); err != nil {
		return Wheel{}, fmt.Errorf("download %s with pip: %w", what, err)
	}
	files, err := filepath.Glob(filepath.Join(temporary, "*.whl"))
	if err != nil || len(files) != 1 {
		return Wheel{}, fmt.Errorf("download %s with pip: want one wheel, got %v", what, files)
	}
	wheel, err := Open(files[0])
	if err == nil && sum != "" && wheel.SHA256() != strings.ToLower(sum) {
		err = fmt.Errorf("the wheel of %s %s has the SHA-256 %s, not %s", pack, wheel.Version, wheel.SHA256(), sum)
	}
	return wheel, err
}

type schemas struct {
	date    string
	types   map[string][]byte
	regions map[string][]string
}

func (s schemas) names() []string { return slices.Sorted(maps.Keys(s.types)) }

// The schema of us-east-1 is taken if it has the type, and otherwise the schema of the first region.
func readSchemas(wheel *contents) (schemas, error) {
	out := schemas{types: map[string][]byte{}, regions: map[string][]string{}}
	var version struct {
		Date string `json:"schema_date"`
	}
	if err := wheel.readJSON(root+"version.json", &version); err != nil {
		return out, err
	}
	out.date = version.Date
	hashes := map[string]map[string]string{}
	for _, file := range wheel.File {
		region, isRegion := strings.CutSuffix(path.Base(file.Name), ".json")
		if path.Dir(file.Name)+"/" != root+"providers/" || !isRegion || region == "sam" {
			continue
		}
		var ofRegion map[string]string
		if err := wheel.readJSON(file.Name, &ofRegion); err != nil {
			return out, err
		}
		hashes[region] = ofRegion
	}
	regions := slices.SortedFunc(maps.Keys(hashes), func(a, b string) int {
		if a == canonical || b == canonical {
			return cmp.Compare(boolean(b == canonical), boolean(a == canonical))
		}
		return strings.Compare(a, b)
	})
	files := map[string]string{}
	for _, region := range regions {
		// A region with exactly the types of us-east-1 is a region without published types: the package repeats the
		// types of us-east-1 for it.
		unknown := region != canonical && sameKeys(hashes[region], hashes[canonical])
		for name, hash := range hashes[region] {
			if _, isKnown := files[name]; !isKnown {
				files[name] = hash
			}
			if !unknown {
				out.regions[name] = append(out.regions[name], region)
			}
		}
	}
	for name, hash := range files {
		raw, err := reduce(wheel, root+"resources/"+hash+".json")
		if err != nil {
			return out, fmt.Errorf("resource type %s: %w", name, err)
		}
		if raw != nil && strings.HasPrefix(name, "AWS::") {
			out.types[name] = raw
		}
	}
	return out, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sameKeys(a, b map[string]string) bool {
	return len(a) == len(b) && slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
}

// The provider does not read these fields of schemas.
var unused = []string{
	"$schema", "$id", "$comment", "title", "examples", "sourceUrl", "documentationUrl", "resourceLink",
	"replacementStrategy", "typeConfiguration", "lifecycle", "additionalIdentifiers",
}

// maxDescription is how much of a description is kept, in bytes.
const maxDescription = 600

// The schema is compact JSON with sorted keys; nil if Cloud Control does not serve the type.
func reduce(wheel *contents, file string) ([]byte, error) {
	var schema map[string]any
	if err := wheel.readJSON(file, &schema); err != nil {
		return nil, err
	}
	handlers, _ := schema["handlers"].(map[string]any)
	for _, verb := range []resourcetype.Verb{resourcetype.Create, resourcetype.Read, resourcetype.Delete} {
		if _, has := handlers[string(verb)]; !has {
			return nil, nil
		}
	}
	reduceSchema(schema)
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(schema); err != nil {
		return nil, err
	}
	if _, err := resourcetype.Parse(raw.Bytes()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(raw.Bytes(), []byte("\n")), nil
}

// reduceSchema removes unused fields of a schema and the schemas inside of it. Properties may have any name.
func reduceSchema(value any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, field := range unused {
		delete(schema, field)
	}
	if description, ok := schema["description"].(string); ok {
		if description = resourcetype.Shorten(description, maxDescription); description == "" {
			delete(schema, "description")
		} else {
			schema["description"] = description
		}
	}
	for _, field := range []string{"properties", "patternProperties", "definitions"} {
		named, _ := schema[field].(map[string]any)
		for _, each := range named {
			reduceSchema(each)
		}
	}
	for _, field := range []string{"items", "additionalProperties"} {
		reduceSchema(schema[field])
	}
	for _, field := range []string{"oneOf", "anyOf", "allOf"} {
		alternatives, _ := schema[field].([]any)
		for _, each := range alternatives {
			reduceSchema(each)
		}
	}
}

// Limits of what is read of a wheel and of one of its files, in bytes after decompression.
const (
	maxContent = 1 << 30
	maxEntry   = 16 << 20
)

// contents are the files of a wheel, and how many bytes may still be read of them.
type contents struct {
	*zip.Reader
	left int64
}

func (c *contents) readJSON(name string, into any) error {
	file, err := c.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	bounded := &io.LimitedReader{R: file, N: min(maxEntry, c.left)}
	limit := bounded.N
	decoder := json.NewDecoder(bounded)
	decoder.UseNumber()
	err = decoder.Decode(into)
	c.left -= limit - bounded.N
	if err != nil && bounded.N == 0 {
		return fmt.Errorf("%s is too large", name)
	}
	return err
}

// compress writes the archive. Equal schemas lead to equal bytes.
func compress(s schemas) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestCompression)
	})
	for _, name := range s.names() {
		entry, err := w.CreateHeader(&zip.FileHeader{
			Name: strings.ReplaceAll(name, "::", "-") + ".json", Method: zip.Deflate,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
		})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(s.types[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeIndex returns the lines of types.tsv: the source; sets of regions; and the types with the offset, the
// compressed size and the size of their schema in the archive, and the set of their regions.
func writeIndex(version, sum string, s schemas, archive []byte) ([]byte, error) {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	files := map[string]*zip.File{}
	for _, file := range reader.File {
		files[strings.ReplaceAll(strings.TrimSuffix(file.Name, ".json"), "-", "::")] = file
	}
	var sets, types bytes.Buffer
	numbers := map[string]int{}
	for _, name := range s.names() {
		regions := strings.Join(slices.Sorted(slices.Values(s.regions[name])), " ")
		if _, isKnown := numbers[regions]; !isKnown {
			numbers[regions] = len(numbers)
			fmt.Fprintf(&sets, "@%d\t%s\n", numbers[regions], regions)
		}
		offset, err := files[name].DataOffset()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&types, "%s\t%d\t%d\t%d\t@%d\n", name, offset, files[name].CompressedSize64,
			files[name].UncompressedSize64, numbers[regions])
	}
	hash := sha256.Sum256(archive)
	head := fmt.Sprintf("%s\t%s\t%s\t%s\t%x\n", pack, version, sum, s.date, hash)
	return slices.Concat([]byte(head), sets.Bytes(), types.Bytes()), nil
}
