package library

import (
	"crypto/md5"
	"crypto/sha256"
	"hash/fnv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// hashFunctions declares hash.fnv64a, hash.sha256 and hash.md5. They take a string and
// return bytes; "%x".format([…]) gives the hexadecimal digits.
func hashFunctions() []cel.EnvOption {
	return []cel.EnvOption{
		hash("fnv64a", func(data []byte) []byte {
			h := fnv.New64a()
			h.Write(data)
			return h.Sum(nil)
		}),
		hash("sha256", func(data []byte) []byte {
			sum := sha256.Sum256(data)
			return sum[:]
		}),
		hash("md5", func(data []byte) []byte {
			sum := md5.Sum(data)
			return sum[:]
		}),
	}
}

func hash(name string, sum func([]byte) []byte) cel.EnvOption {
	return cel.Function("hash."+name, cel.Overload("hash."+name+"_string",
		[]*cel.Type{cel.StringType}, cel.BytesType,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			text, ok := v.(types.String)
			if !ok {
				return noOverload(v)
			}
			return types.Bytes(sum([]byte(text)))
		})))
}
