package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// spool stores the documents of an export in a file until all are read, since they are written
// in another order. Only their positions are in memory.
type spool struct {
	file    *os.File
	end     int64
	entries map[archive.Section]map[object.Key]span
}

type span struct{ at, length int64 }

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "espalier-export-") // of mode 0600
	if err != nil {
		return nil, err
	}
	return &spool{file: file, entries: map[archive.Section]map[object.Key]span{}}, nil
}

func (s *spool) close() error { return errors.Join(s.file.Close(), os.Remove(s.file.Name())) }

// put adds an object in its exported form, in place of an earlier state of it.
func (s *spool) put(section archive.Section, o *unstructured.Unstructured) error {
	return s.write(section, archive.Strip(o))
}

// putWithStatus adds an object with its status.
func (s *spool) putWithStatus(section archive.Section, o *unstructured.Unstructured) error {
	return s.write(section, archive.StripExceptStatus(o))
}

func (s *spool) write(section archive.Section, o *unstructured.Unstructured) error {
	raw, err := archive.Encode(o)
	if err != nil {
		return err
	}
	if _, err := s.file.WriteAt(raw, s.end); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	if s.entries[section] == nil {
		s.entries[section] = map[object.Key]span{}
	}
	s.entries[section][object.KeyOf(o)] = span{s.end, int64(len(raw))}
	s.end += int64(len(raw))
	return nil
}

// read returns an object in its exported form.
func (s *spool) read(section archive.Section, key object.Key) (*unstructured.Unstructured, error) {
	at := s.entries[section][key]
	raw := make([]byte, at.length)
	if _, err := s.file.ReadAt(raw, at.at); err != nil {
		return nil, fmt.Errorf("read a temporary file: %w", err)
	}
	return archive.DecodeObject(raw)
}

func (s *spool) drop(section archive.Section, key object.Key) { delete(s.entries[section], key) }

// dropKind removes all objects of a kind.
func (s *spool) dropKind(section archive.Section, of object.Key) {
	for key := range s.entries[section] {
		if key.GroupKind() == of.GroupKind() {
			delete(s.entries[section], key)
		}
	}
}

func (s *spool) count(counts map[string]int) {
	for _, entries := range s.entries {
		for key := range entries {
			counts[archive.CountName(key.GroupKind())]++
		}
	}
}

// namespaces returns the namespaces of all objects.
func (s *spool) namespaces() map[string]bool {
	out := map[string]bool{}
	for _, entries := range s.entries {
		for key := range entries {
			if key.Namespace != "" {
				out[key.Namespace] = true
			}
		}
	}
	return out
}

// copyTo writes the documents section by section; definitions in the given order, all
// else sorted.
func (s *spool) copyTo(w io.Writer, definitions []object.Key) error {
	for _, section := range archive.AllSections {
		var keys []object.Key
		for key := range s.entries[section] {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, object.Key.Compare)
		if section == archive.Definitions {
			keys = definitions
		}
		for _, key := range keys {
			at := s.entries[section][key]
			if _, err := io.CopyN(w, io.NewSectionReader(s.file, at.at, at.length), at.length); err != nil {
				return fmt.Errorf("write the export: %w", err)
			}
		}
	}
	return nil
}
