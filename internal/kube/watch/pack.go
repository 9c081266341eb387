package watch

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/espalier-dev/espalier/internal/kube/compressed"
)

// packed are fields of an object or of its metadata, a map in CBOR that is compressed. It is the value of packedKey. A small map of
// Go takes 340 bytes even if it has one entry, so that decoded fields take ten times as much memory as in CBOR.
type packed compressed.Text

// packedKey is no name of a field.
const packedKey = ""

// packer packs objects of a kind. The zero value is ready. It is safe for concurrent use.
type packer struct{ fields, metadata compressed.Family }

// pack returns an object with its fields packed, and those of its metadata by which no event is routed. Maps and lists of it
// may be shared with the result. Equal objects are packed to equal ones.
func (p *packer) pack(o map[string]any) map[string]any {
	out := packFields(&p.fields, o, func(name string) bool { return name != "apiVersion" && name != "kind" && name != "metadata" })
	if metadata := child(o, "metadata"); metadata != nil {
		out["metadata"] = packFields(&p.metadata, metadata, isPackedMetadata)
	}
	return out
}

// isPackedMetadata selects the metadata that are packed.
func isPackedMetadata(name string) bool {
	return name == "ownerReferences" || name == "managedFields" || name == "creationTimestamp"
}

// packFields returns a copy of a map in which the selected fields are packed, if they can be encoded.
func packFields(family *compressed.Family, in map[string]any, selected func(name string) bool) map[string]any {
	rest := map[string]any{}
	for name, v := range in {
		if selected(name) {
			rest[name] = v
		}
	}
	raw, err := direct.Marshal(rest)
	if err == nil {
		_, err = decode(raw) // the decoder has limits that the encoder does not have, such as one of the depth
	}
	if err != nil || len(rest) == 0 {
		return maps.Clone(in)
	}
	out := make(map[string]any, len(in)-len(rest)+1) // a map from which fields are deleted stays as large
	for name, v := range in {
		if !selected(name) {
			out[name] = v
		}
	}
	out[packedKey] = packed(family.Compress(raw))
	return out
}

func decode(raw []byte) (fields map[string]any, err error) {
	err = direct.Unmarshal(raw, &fields)
	return fields, err
}

// unpacked returns an object with the packed fields in their places: the object itself if it has none, or else a new one,
// which shares the rest.
func unpacked(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	metadata := metadataOf(o)
	if !isPacked(o.Object) && !isPacked(metadata) {
		return o
	}
	out := unpackFields(o.Object)
	if metadata != nil {
		out["metadata"] = unpackFields(metadata)
	}
	return &unstructured.Unstructured{Object: out}
}

// metadataOnly returns an object with the metadata that are never packed.
func metadataOnly(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := make(map[string]any, 3)
	for _, name := range [...]string{"apiVersion", "kind"} {
		if v, has := o.Object[name]; has {
			out[name] = v
		}
	}
	if in := metadataOf(o); in != nil {
		metadata := make(map[string]any, len(in))
		for name, v := range in {
			if name != packedKey && !isPackedMetadata(name) {
				metadata[name] = v
			}
		}
		out["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: out}
}

func isPacked(fields map[string]any) bool {
	_, is := fields[packedKey].(packed)
	return is
}

func unpackFields(in map[string]any) map[string]any {
	out := maps.Clone(in)
	if p, is := in[packedKey].(packed); is {
		fields, _ := decode(compressed.Text(p).Bytes()) // packFields has decoded it
		delete(out, packedKey)
		maps.Copy(out, fields)
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
