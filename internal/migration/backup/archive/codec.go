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
	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// Encode encodes an object as a document of the stream.
func Encode(o *unstructured.Unstructured) ([]byte, error) {
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", object.KeyOf(o), err)
	}
	return append([]byte("---\n"), raw...), nil
}

// Encode encodes the header as the first document of the stream.
func (h Header) Encode() ([]byte, error) {
	raw, err := yaml.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the header: %w", err)
	}
	return raw, nil
}

// File is a decoded export.
type File struct {
	Header   Header
	Sections map[Section][]*unstructured.Unstructured
}

// Objects returns all objects in the order in which an import restores them.
func (f File) Objects() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, s := range AllSections {
		out = append(out, f.Sections[s]...)
	}
	return out
}

// ErrNotAnExport is returned for a stream that does not begin with an export's header.
var ErrNotAnExport = errors.New("not an export of Espalier: the first document must be of kind Export")

// gzipMagic is how a gzip file begins.
const gzipMagic = "\x1f\x8b"

var errCompressed = errors.New("it is compressed; decompress it first: gunzip -c FILE | espalier import -")

// Decode reads an export of at most so many bytes. It returns an error if the stream is no
// valid export; Check finds problems of its content.
func Decode(r io.Reader, maxBytes int64) (File, error) {
	budget := bounded.NewBudget(maxBytes, fmt.Errorf("the export is larger than %d bytes; if you trust it, raise --max-bytes", maxBytes))
	in := bufio.NewReader(budget.Reader(r))
	f := File{Sections: map[Section][]*unstructured.Unstructured{}}
	if magic, err := in.Peek(len(gzipMagic)); err == nil && string(magic) == gzipMagic {
		return f, errCompressed
	}
	document := bounded.NewBudget(maxDocument, fmt.Errorf("it has more than %d bytes", maxDocument))
	documents := utilyaml.NewYAMLReader(bufio.NewReader(document.Reader(in)))
	first, err := documents.Read()
	if errors.Is(err, io.EOF) {
		return f, ErrNotAnExport
	}
	if err != nil {
		return f, fmt.Errorf("read the export: %w", err)
	}
	err = checkDocument(first)
	if err == nil {
		err = yaml.Unmarshal(first, &f.Header)
	}
	if err != nil {
		return f, fmt.Errorf("decode the header, the first document: %w", err)
	}
	if f.Header.Kind != HeaderKind {
		return f, ErrNotAnExport
	}
	if f.Header.Format == 0 {
		return f, errors.New("the header has no format")
	}
	if f.Header.Format < 0 {
		return f, fmt.Errorf("the header has the invalid format %d", f.Header.Format)
	}
	if f.Header.Format > Format {
		return f, fmt.Errorf("the export has format %d, and this program reads formats up to %d: import it with version %s or later", f.Header.Format,
			Format, f.Header.Version)
	}
	var all []*unstructured.Unstructured
	for n := 2; ; n++ {
		document.Renew()
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f, fmt.Errorf("read document %d of the export: %w", n, err)
		}
		if n > maxObjects {
			return f, fmt.Errorf("the export has more than %d documents", maxObjects)
		}
		var o *unstructured.Unstructured
		if err = checkDocument(raw); err == nil {
			o, err = DecodeObject(raw)
		}
		if err != nil {
			return f, fmt.Errorf("decode document %d of the export: %w", n, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	f.sort(all)
	return f, nil
}

// DecodeObject decodes a document of the stream. Integers become int64, as in the decoder of the
// API.
func DecodeObject(raw []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, json.Unmarshal(text, &o.Object)
}

// sort sorts objects into their sections, and each section.
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
