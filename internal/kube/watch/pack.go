package watch

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// packed is the value of a field in CBOR. A small map of Go takes 340 bytes even if it has one entry, so
// that a decoded object takes ten times as much memory.
type packed string

// pack returns a map or a list packed, and any other value as it is. Equal values are packed to equal ones.
func pack(v any) any {
	switch v.(type) {
	case map[string]any, []any:
	default:
		return v
	}
	raw, err := direct.Marshal(v)
	if err != nil {
		return v
	}
	// The decoder has limits that the encoder does not have, such as one of the depth.
	if _, err := packed(raw).value(); err != nil {
		return v
	}
	return packed(raw)
}

func (p packed) value() (v any, err error) {
	err = direct.Unmarshal([]byte(p), &v)
	return v, err
}

// unpacked returns an object without packed fields: the object itself if it has none, or else a new one,
// which shares its metadata.
func unpacked(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	var out map[string]any
	for name, field := range o.Object {
		p, is := field.(packed)
		if !is {
			continue
		}
		if out == nil {
			out = maps.Clone(o.Object)
		}
		out[name], _ = p.value() // pack has decoded it
	}
	if out == nil {
		return o
	}
	return &unstructured.Unstructured{Object: out}
}

// unpackAll replaces objects by unpacked ones.
func unpackAll(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for i, o := range objects {
		objects[i] = unpacked(o)
	}
	return objects
}
