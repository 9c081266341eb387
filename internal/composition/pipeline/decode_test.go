package pipeline

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func encoded(t *testing.T, response *fnv1.RunFunctionResponse) []byte {
	t.Helper()
	raw, err := proto.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestMessagesOfAResponseAreCounted(t *testing.T) {
	object := &structpb.Struct{Fields: map[string]*structpb.Value{
		"list": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}, structpb.NewBoolValue(true)}}),
	}}
	withContext := encoded(t, &fnv1.RunFunctionResponse{Context: object})
	cases := map[string]struct {
		reason string
		raw    []byte
		want   int
	}{
		"an empty response":   {"nothing is in it", nil, 0},
		"results":             {"each is a message", encoded(t, &fnv1.RunFunctionResponse{Results: []*fnv1.Result{{}, {Message: "text"}}}), 2},
		"an object":           {"the struct, the entry of its map, its value, the list, and two items", withContext, 6},
		"connection details":  {"the state, the composite, and two entries", encoded(t, &fnv1.RunFunctionResponse{Desired: &fnv1.State{Composite: &fnv1.Resource{ConnectionDetails: map[string][]byte{"a": nil, "b": {1}}}}}), 4},
		"an unknown field":    {"it is kept as bytes", []byte{0x7a, 2, 0x0a, 0}, 0},
		"another wire type":   {"it is an unknown field", []byte{0x18, 1}, 0},
		"an error at the end": {"what is before it is decoded", append(bytes.Clone(withContext), 0xff), 6},
		"an error within":     {"what is after it is not decoded", append([]byte{0x1a, 2, 0x12, 9}, withContext...), 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			descriptor := (&fnv1.RunFunctionResponse{}).ProtoReflect().Descriptor()
			if !hasAtMost(tc.want, tc.raw, descriptor) || tc.want > 0 && hasAtMost(tc.want-1, tc.raw, descriptor) {
				t.Errorf("%s: there are not %d messages", tc.reason, tc.want)
			}
		})
	}
}
