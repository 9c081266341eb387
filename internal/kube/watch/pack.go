package watch

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/espalier-dev/espalier/internal/kube/compressed"
)

// packed is the value of a field in CBOR, compressed. A small map of Go takes 340 bytes even if it has one entry, so
// that a decoded object takes ten times as much memory as in CBOR.
type packed compressed.Text

// packer packs fields of the objects of a kind. The zero value is ready. It is not safe for concurrent use.
type packer struct {
	families map[string]*compressed.Family // by the field's name
}

// pack returns a map or a list packed, and any other value as it is. Equal values are packed to equal ones.
func (p *packer) pack(field string, v any) any {
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
	if _, err := decode(raw); err != nil {
		return v
	}
	if p.families == nil {
		p.families = map[string]*compressed.Family{}
	}
	family := p.families[field]
	if family == nil {
		family = &compressed.Family{}
		p.families[field] = family
	}
	return packed(family.Compress(raw))
}

func decode(raw []byte) (v any, err error) {
	err = direct.Unmarshal(raw, &v)
	return v, err
}

func (p packed) value() any {
	v, _ := decode(compressed.Text(p).Bytes()) // pack has decoded it
	return v
}

// unpacked returns an object without packed fields: the object itself if it has none, or else a new one,
// which shares the rest.
func unpacked(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	out := withoutPacked(o.Object)
	metadata, _ := o.Object["metadata"].(map[string]any)
	if full := withoutPacked(metadata); full != nil {
		if out == nil {
			out = maps.Clone(o.Object)
		}
		out["metadata"] = full
	}
	if out == nil {
		return o
	}
	return &unstructured.Unstructured{Object: out}
}

// withoutPacked returns a copy of a map without packed values; nil if it has none.
func withoutPacked(in map[string]any) map[string]any {
	var out map[string]any
	for name, field := range in {
		p, is := field.(packed)
		if !is {
			continue
		}
		if out == nil {
			out = maps.Clone(in)
		}
		out[name] = p.value()
	}
	return out
}

// unpackAll replaces objects by unpacked ones.
func unpackAll(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for i, o := range objects {
		objects[i] = unpacked(o)
	}
	return objects
}
