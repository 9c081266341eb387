// Package wire reads the API server's JSON. Clients of client-go scan each object several times before
// they decode it, which took a fifth of the controllers' CPU time. This package decodes each object
// once, in one pass.
// See docs/design/0019-one-process-or-several-installations.md.
package wire

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Client is a dynamic client whose answers and events are decoded by this package. client-go has no ConfirmedDelete.
type Client struct {
	dynamic.Interface
	rest rest.Interface
}

// NewClient returns a client. Without an HTTP client it creates one.
func NewClient(config *rest.Config, client *http.Client) (*Client, error) {
	config = dynamic.ConfigFor(config)
	if client == nil {
		var err error
		if client, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	config.NegotiatedSerializer = serializer{config.NegotiatedSerializer}
	config.GroupVersion = &schema.GroupVersion{} // of paths, which the dynamic client sets itself
	config.APIPath = "/unused"
	c, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &Client{dynamic.New(c), c}, nil
}

// serializer is the dynamic client's, with other decoders for JSON.
type serializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	out := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i, info := range out {
		if info.MediaType != runtime.ContentTypeJSON || info.StreamSerializer == nil {
			continue
		}
		stream := *info.StreamSerializer
		stream.Serializer, stream.Framer = eventSerializer{stream.Serializer}, framer{stream.Framer}
		out[i].Serializer, out[i].StreamSerializer = objectSerializer{info.Serializer}, &stream
	}
	return out
}

// objectSerializer decodes objects and lists of objects; for everything else, such as a Status, there
// is the serializer that it replaces.
type objectSerializer struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (s objectSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	switch into.(type) {
	case nil, *unstructured.Unstructured, *unstructured.UnstructuredList:
	default:
		return s.Serializer.Decode(data, defaults, into)
	}
	content, err := decode(data)
	if err != nil {
		return s.Serializer.Decode(data, defaults, into) // it says what is wrong
	}
	kind := kindOf(content)
	items, isList := content["items"].([]any)
	switch into := into.(type) {
	case *unstructured.UnstructuredList:
		if kind.Kind == "" || !isList || !setItems(into, content, items) {
			break
		}
		return into, &kind, nil
	case *unstructured.Unstructured:
		if kind.Kind == "" || isStatus(kind) {
			break
		}
		into.Object = content
		return into, &kind, nil
	case nil:
		if kind.Kind == "" || isList || isStatus(kind) {
			break
		}
		return &unstructured.Unstructured{Object: content}, &kind, nil
	}
	return s.Serializer.Decode(data, defaults, into)
}

func kindOf(content map[string]any) schema.GroupVersionKind {
	version, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

func isStatus(kind schema.GroupVersionKind) bool {
	return kind == schema.GroupVersionKind{Version: "v1", Kind: "Status"}
}

// setItems sets a list, and reports whether all items are objects. Items of built-in kinds have no kind
// of their own in some lists; it follows from the list's.
func setItems(into *unstructured.UnstructuredList, content map[string]any, items []any) bool {
	itemKind := strings.TrimSuffix(kindName(content), "List")
	out := make([]unstructured.Unstructured, len(items))
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return false
		}
		if itemKind != "" && kindName(object) == "" {
			object["kind"], object["apiVersion"] = itemKind, content["apiVersion"]
		}
		out[i].Object = object
	}
	delete(content, "items")
	into.Object, into.Items = content, out
	return true
}

func kindName(content map[string]any) string {
	kind, _ := content["kind"].(string)
	return kind
}

// eventSerializer decodes the events of watches as far as their objects, which are decoded later.
type eventSerializer struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (s eventSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return s.Serializer.Decode(data, defaults, into)
	}
	kind, object, ok := splitEvent(data)
	if !ok {
		return s.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object = kind, runtime.RawExtension{Raw: object}
	return event, defaults, nil
}

// splitEvent splits an event as API servers write it, {"type":"ADDED","object":{…}}, without parsing
// the object. It returns false for any other text.
func splitEvent(data []byte) (kind string, object []byte, ok bool) {
	data = bytes.TrimRight(data, "\n")
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`","object":`))
	if !ok || len(name) > maxKeyLength || bytes.IndexByte(name, '\\') >= 0 || !bytes.HasPrefix(rest, []byte("{")) {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(rest, []byte("}"))
	return string(name), object, ok
}

type framer struct{ runtime.Framer }

// NewFrameReader implements runtime.Framer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser { return newLineReader(r) }
