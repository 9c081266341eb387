package gather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Limits of the decoder in this test, and the size of what it is given.
const (
	testBytes, testDocument, testValues = 1 << 20, 256 << 10, 5000
	bombSize                            = 16 << 20
	// maxAllocated bounds what is allocated for a bomb, whether it is kept or not.
	maxAllocated = 48 << 20
)

// compress returns a gzipped stream that is written by a function.
func compress(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// repeated writes a text until so many bytes are written.
func repeated(text string, size int) func(io.Writer) error {
	return func(w io.Writer) error {
		text := []byte(strings.Repeat(text, 1+(1<<16)/len(text)))
		for left := size; left > 0; left -= len(text) {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return nil
	}
}

// archived writes a tar archive of a file that is repeated.
func archived(name string, times int, size int64, content func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		archive := tar.NewWriter(w)
		for i := range times {
			if err := archive.WriteHeader(&tar.Header{Name: fmt.Sprintf(name, i), Mode: 0o600, Size: size}); err != nil {
				return err
			}
			if err := content(archive); err != nil {
				return err
			}
		}
		return archive.Close()
	}
}

func TestABombIsReadInLittleMemory(t *testing.T) {
	const object = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
	zeros, spaces := strings.Repeat("\x00", 1<<16), strings.Repeat(" ", 1<<16)
	entry := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	for name, write := range map[string]func(io.Writer) error{
		"zeros":                     repeated(zeros, bombSize),
		"a line":                    repeated("x", bombSize),
		"white space":               repeated(spaces, bombSize),
		"empty documents":           repeated("---\n", bombSize),
		"objects":                   repeated(object, bombSize),
		"objects in JSON":           repeated(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, bombSize),
		"a list in JSON":            repeated(`[[],[],`, bombSize),
		"a list in YAML":            repeated("- []\n", bombSize),
		"deep JSON":                 repeated(`{"a":`, bombSize),
		"one huge entry":            archived("f%d.yaml", 1, bombSize, repeated(zeros, bombSize)),
		"one huge entry, not read":  archived("f%d.log", 1, bombSize, repeated(zeros, bombSize)),
		"many entries":              archived("f%d.yaml", bombSize/1024, int64(len(object)), entry(object)),
		"many entries without text": archived("f%d.yaml", bombSize/512, 0, entry("")),
		"many entries with notes":   archived("notes.txt%.0d", bombSize/2048, 1024, entry(strings.Repeat("note\n\n..", 128))),
		"aliases": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "a: &a %s\nb: &b [%s]\nc: [%s]\n", strings.Repeat("x", 1<<16), strings.Repeat("*a, ", 1000), strings.Repeat("*b, ", 1000))
			return err
		},
	} {
		bomb := compress(t, write)
		d := newDecoder(testBytes, testDocument, testValues)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := d.read(bytes.NewReader(bomb))
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > maxAllocated {
			t.Errorf("%s: %d bytes are read with %d bytes of memory, %d objects: %v", name, len(bomb), got, len(d.out.Objects), err)
		}
	}
}

func TestAllFilesOfARecordAreBoundedTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml.gz")
	if err := os.WriteFile(path, compress(t, repeated("# a comment\n", testBytes/3)), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDecoder(testBytes, testDocument*4, testValues)
	for i := range 4 {
		if err := d.file(path); (err == nil) != (i < 2) {
			t.Errorf("file %d: %v", i, err)
		}
	}
}
