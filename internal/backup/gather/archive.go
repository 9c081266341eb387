package gather

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
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

// maxBytes bounds what is read of a record, in bytes after decompression: in memory, objects take several times as much.
const maxBytes = 256 << 20

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
	d := &decoder{left: maxBytes}
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
	left int64
	out  Record
}

func (d *decoder) file(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := d.stream(f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// stream reads a stream that may be compressed, and may be a tar archive.
func (d *decoder) stream(r io.Reader) error {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		uncompressed, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		buffered = bufio.NewReader(uncompressed)
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
	bounded := &boundedReader{r, &d.left}
	documents := utilyaml.NewYAMLOrJSONDecoder(bufio.NewReader(bounded), 4096)
	for {
		var content map[string]any
		err := documents.Decode(&content)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.add(&unstructured.Unstructured{Object: content})
	}
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

// boundedReader fails once nothing is left.
type boundedReader struct {
	r    io.Reader
	left *int64
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return n, fmt.Errorf("it has more than %d bytes of objects; gather fewer namespaces (--namespace), or read a directory of some of its files", int64(maxBytes))
	}
	return n, err
}
