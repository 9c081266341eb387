package library

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// randomFunctions declares random.seededString(length, seed) and random.seededInt(min, max, seed). The results come
// from the SHA-256 of the seed, so every replica, run and version computes the same: names of objects depend on it.
func randomFunctions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("random.seededString", cel.Overload("random.seededString_int_string",
			[]*cel.Type{cel.IntType, cel.StringType}, cel.StringType, cel.BinaryBinding(seededString))),
		cel.Function("random.seededInt", cel.Overload("random.seededInt_int_int_string",
			[]*cel.Type{cel.IntType, cel.IntType, cel.StringType}, cel.IntType, cel.FunctionBinding(seededInt))),
	}
}

const (
	alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	// maxSeededLength bounds what one call may allocate: the length is an argument,
	// so the size of the inputs does not bound the cost of a call.
	maxSeededLength = 1 << 16
)

var (
	errLength = errors.New("random.seededString: the length must be between 1 and 65536")
	errRange  = errors.New("random.seededInt: min must be less than max")
)

// seededString computes each character from the next four bytes of the hash, and starts
// over at the first byte after every eighth character.
func seededString(length, seed ref.Val) ref.Val {
	n, ok := length.(types.Int)
	if !ok {
		return noOverload(length)
	}
	text, ok := seed.(types.String)
	if !ok {
		return noOverload(seed)
	}
	if n <= 0 || n > maxSeededLength {
		return types.WrapErr(errLength)
	}
	sum := sha256.Sum256([]byte(text))
	out := make([]byte, n)
	for i := range out {
		word := binary.BigEndian.Uint32(sum[i*4%len(sum):])
		out[i] = alphabet[word%uint32(len(alphabet))]
	}
	return types.String(out)
}

func seededInt(args ...ref.Val) ref.Val {
	least, ok := args[0].(types.Int)
	if !ok {
		return noOverload(args[0])
	}
	limit, ok := args[1].(types.Int)
	if !ok {
		return noOverload(args[1])
	}
	seed, ok := args[2].(types.String)
	if !ok {
		return noOverload(args[2])
	}
	if least >= limit {
		return types.WrapErr(errRange)
	}
	sum := sha256.Sum256([]byte(seed))
	draw := binary.BigEndian.Uint64(sum[:]) % uint64(limit-least)
	return least + types.Int(draw)
}
