package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/object"
)

// Encode writes an object as a document of a stream.
func Encode(o *unstructured.Unstructured) ([]byte, error) {
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", object.KeyOf(o), err)
	}
	return append([]byte("---\n"), raw...), nil
}

// Encode writes the header as a stream's first document.
func (h Header) Encode() ([]byte, error) {
	raw, err := yaml.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the header: %w", err)
	}
	return raw, nil
}

// File is an export as it was read.
type File struct {
	Header   Header
	Sections map[Section][]*unstructured.Unstructured
}

// Objects are all objects in the order in which they are restored.
func (f File) Objects() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, s := range AllSections {
		out = append(out, f.Sections[s]...)
	}
	return out
}

// ErrNotAnExport is returned for a stream that does not begin with an export's header.
var ErrNotAnExport = errors.New("this is not an export of espalier's: it doesn't begin with a document of kind Export")

// Decode reads an export. It returns an error if the stream is no valid export; Check finds
// problems of its content.
func Decode(r io.Reader) (File, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	f := File{Sections: map[Section][]*unstructured.Unstructured{}}
	first, err := documents.Read()
	if errors.Is(err, io.EOF) {
		return f, ErrNotAnExport
	}
	if err != nil {
		return f, fmt.Errorf("read the export: %w", err)
	}
	if err := yaml.Unmarshal(first, &f.Header); err != nil || f.Header.Kind != HeaderKind || f.Header.Format == 0 {
		return f, ErrNotAnExport
	}
	if f.Header.Format > Format {
		return f, fmt.Errorf("the export is of format %d, and this program reads up to %d: import it with version %s or later", f.Header.Format, Format, f.Header.Version)
	}
	var all []*unstructured.Unstructured
	for n := 2; ; n++ {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f, fmt.Errorf("read document %d of the export: %w", n, err)
		}
		o, err := DecodeObject(raw)
		if err != nil {
			return f, fmt.Errorf("document %d of the export can't be read: %w", n, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	f.sort(all)
	return f, nil
}

// DecodeObject reads a document of a stream with its whole numbers whole, as the API's own decoder
// does.
func DecodeObject(raw []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, json.Unmarshal(text, &o.Object)
}

// sort puts objects into their sections and orders.
func (f *File) sort(all []*unstructured.Unstructured) {
	defined := Defined(definitionsOf(all))
	for _, o := range all {
		s := sectionOf(o.GroupVersionKind().GroupKind(), defined)
		f.Sections[s] = append(f.Sections[s], o)
	}
	for _, s := range AllSections {
		Sort(f.Sections[s])
	}
	f.Sections[Definitions] = Order(f.Sections[Definitions])
}

func definitionsOf(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range all {
		if IsDefinition(o.GroupVersionKind().GroupKind()) {
			out = append(out, o)
		}
	}
	return out
}
