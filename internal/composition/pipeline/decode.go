package pipeline

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxValues limits the values of a response. An empty value takes 2 bytes in a message and about 70 in memory, so the
// limit of bytes alone does not bound the memory for a response.
const maxValues = 1_000_000

// valueMemory is about how many bytes of memory a decoded value takes, without its text.
const valueMemory = 100

// memoryOf is approximate, in bytes; math.MaxInt for an invalid message.
func memoryOf(message proto.Message) int {
	raw, err := proto.Marshal(message)
	if err != nil {
		return math.MaxInt
	}
	left := math.MaxInt
	countMessages(&left, raw, message.ProtoReflect().Descriptor(), protowire.DefaultRecursionLimit)
	return len(raw) + valueMemory*(math.MaxInt-left)
}

// boundValues is a client interceptor: it returns a ResponseError for a response with more than maxValues
// values, which is not decoded.
func boundValues(ctx context.Context, method string, request, response any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption) error {
	codec := &boundedCodec{CodecV2: encoding.GetCodecV2(protocodec.Name)}
	err := invoke(ctx, method, request, response, connection, append(options, grpc.ForceCodecV2(codec))...)
	if codec.exceeded != nil { // gRPC keeps only its text
		return codec.exceeded
	}
	return err
}

type boundedCodec struct {
	encoding.CodecV2
	exceeded error
}

// Name is empty: it would become part of the content type of requests.
func (*boundedCodec) Name() string { return "" }

// Unmarshal implements encoding.CodecV2.
func (c *boundedCodec) Unmarshal(data mem.BufferSlice, into any) error {
	raw := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer raw.Free()
	if message, ok := into.(proto.Message); ok && !hasAtMost(maxValues, raw.ReadOnlyData(), message.ProtoReflect().Descriptor()) {
		c.exceeded = &ResponseError{Problem: fmt.Sprintf("has more than %d values", maxValues)}
		return c.exceeded
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{raw}, into)
}

// hasAtMost reports whether an encoded message contains no more than limit messages. Of an invalid one,
// those before the error count: decoding ends there.
func hasAtMost(limit int, raw []byte, of protoreflect.MessageDescriptor) bool {
	countMessages(&limit, raw, of, protowire.DefaultRecursionLimit)
	return limit >= 0
}

// countMessages subtracts the messages within a message from left, entries of maps among them, until left is
// negative. It reports whether the message is valid.
func countMessages(left *int, raw []byte, of protoreflect.MessageDescriptor, depth int) bool {
	for len(raw) > 0 && *left >= 0 {
		number, wireType, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false
		}
		raw = raw[n:]
		field := of.Fields().ByNumber(number)
		if wireType != protowire.BytesType || field == nil || field.Message() == nil {
			if n = protowire.ConsumeFieldValue(number, wireType, raw); n < 0 {
				return false
			}
			raw = raw[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(raw)
		if n < 0 || depth == 0 {
			return false
		}
		*left--
		if !countMessages(left, content, field.Message(), depth-1) {
			return false
		}
		raw = raw[n:]
	}
	return true
}
