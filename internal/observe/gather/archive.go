package gather

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// notesFile is the file of an archive with what could not be read.
const notesFile = "notes.txt"

// Write writes the record as a gzipped tar archive: a YAML file for each kind.
func (r *Record) Write(w io.Writer, at time.Time) error {
	files := map[string]*bytes.Buffer{}
	for _, o := range r.Objects {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		gvk := o.GroupVersionKind()
		name := strings.TrimPrefix(gvk.Group+"/"+gvk.Kind+".yaml", "/")
		if files[name] == nil {
			files[name] = &bytes.Buffer{}
		}
		files[name].WriteString("---\n")
		files[name].Write(raw)
	}
	files[notesFile] = bytes.NewBufferString(strings.Join(append(slices.Clone(r.Notes), ""), "\n"))
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(files[name].Len()), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(files[name].Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// Limits of what is read of a record, which may be written by somebody else. In memory, values take several times as much as their text.
const (
	// maxBytes limits the record, in bytes after decompression.
	maxBytes = 256 << 20
	// maxDocument limits a document, which may be a list, in bytes.
	maxDocument = 64 << 20
	// maxValues limits the values of all documents.
	maxValues = 4_000_000
)

// maxNotesBytes bounds what is read of the notes of a record, in bytes, and maxNotes how many there are.
const (
	maxNotesBytes = 64 << 10
	maxNotes      = 100
)

// Read reads a record: an archive of Write, an export, or any YAML or JSON files, in a
// directory, in a tar archive, or alone, compressed or not. Documents that are no objects are left out. The notes are those
// of an archive of Write, also after it was unpacked, up to a limit; they are printable.
func Read(path string) (*Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d := newDecoder(maxBytes, maxDocument, maxValues)
	if !info.IsDir() {
		err = d.file(path)
	} else {
		err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || !isManifest(strings.TrimSuffix(name, ".gz")) {
				return err
			}
			return d.file(name)
		})
		if err == nil {
			err = d.unpackedNotes(filepath.Join(path, notesFile))
		}
	}
	if err == nil && len(d.out.Objects) == 0 {
		err = fmt.Errorf("%s has no objects", path)
	}
	return &d.out, err
}

// unpackedNotes reads the notes of an archive that was unpacked. Other directories have no such file.
func (d *decoder) unpackedNotes(path string) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return d.notes(f)
}

// notes reads the notes of a record.
func (d *decoder) notes(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxNotesBytes))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if note := diag.Printable(strings.TrimSpace(line)); note != "" && len(d.out.Notes) < maxNotes {
			d.out.Notes = append(d.out.Notes, note)
		}
	}
	return nil
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

type decoder struct {
	record, document *bounded.Budget
	values           int // so far
	maxValues        int
	out              Record
}

func newDecoder(record, document int64, values int) *decoder {
	return &decoder{
		record: bounded.NewBudget(record, tooMuch(record, "bytes")), document: bounded.NewBudget(document, tooMuch(document, "bytes in one document")),
		maxValues: values,
	}
}

func tooMuch[N int | int64](limit N, of string) error {
	return fmt.Errorf("it has more than %d %s; gather fewer namespaces (--namespace), or read a directory of some of its files", limit, of)
}

func (d *decoder) file(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := d.read(f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// read reads a stream that may be compressed, and may be a tar archive. What is skipped of it counts as well.
func (d *decoder) read(r io.Reader) error {
	buffered := bufio.NewReader(d.record.Reader(r))
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		uncompressed, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		buffered = bufio.NewReader(d.record.Reader(uncompressed))
	}
	const magicAt = 257 // of the header of a tar archive
	if head, _ := buffered.Peek(magicAt + 5); len(head) == magicAt+5 && string(head[magicAt:]) == "ustar" {
		return d.archive(tar.NewReader(buffered))
	}
	return d.documents(buffered)
}

func (d *decoder) archive(r *tar.Reader) error {
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case header.Typeflag != tar.TypeReg:
		case header.Name == notesFile:
			err = d.notes(r)
		case isManifest(header.Name):
			err = d.documents(r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// documents reads YAML or JSON documents.
func (d *decoder) documents(r io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(d.document.Reader(r)))
	for {
		d.document.Renew()
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.values += bounded.Values(text); d.values > d.maxValues {
			return tooMuch(d.maxValues, "values")
		}
		if err := d.decode(text); err != nil {
			return err
		}
	}
}

// decode reads a document in YAML, or objects in JSON, one after the other.
func (d *decoder) decode(text []byte) error {
	if utilyaml.IsJSONBuffer(text) {
		objects := json.NewDecoder(bytes.NewReader(text))
		for first := true; ; first = false {
			var content map[string]any
			err := objects.Decode(&content)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil && first {
				break // YAML has braces too
			}
			if err != nil {
				return err
			}
			d.add(&unstructured.Unstructured{Object: content})
		}
	}
	var content map[string]any
	if err := bounded.Check(text, maxDocument); err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return err
	}
	d.add(&unstructured.Unstructured{Object: content})
	return nil
}

// add adds an object, or those of a list.
func (d *decoder) add(o *unstructured.Unstructured) {
	if o.Object == nil || o.GetKind() == "" || o.GetAPIVersion() == "" {
		return
	}
	if items, isList := o.Object["items"].([]any); isList && strings.HasSuffix(o.GetKind(), "List") {
		for _, item := range items {
			if content, ok := item.(map[string]any); ok {
				d.add(&unstructured.Unstructured{Object: content})
			}
		}
		return
	}
	if o.GetName() != "" {
		d.out.Objects = append(d.out.Objects, o)
	}
}
