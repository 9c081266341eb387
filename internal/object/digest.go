package object

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
)

// Digest returns a short, stable name for a value's content: equal JSON gives
// equal digests, whatever the order of map keys. The result is 32 lower-case
// hexadecimal digits (128 bits of SHA-256) and is a valid label value.
//
// It panics on values that JSON cannot encode, which decoded objects never contain.
func Digest(v any) string {
	raw, err := AppendJSON(make([]byte, 0, 1024), v)
	if err != nil {
		panic("object.Digest: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// AppendJSON appends what json.Marshal returns for a value. Objects as they are decoded take it half the time
// (BenchmarkDigest), and a reconcile encodes all children of an instance.
func AppendJSON(out []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case string:
		return appendString(out, v)
	case map[string]any:
		if v != nil {
			return appendMap(out, v)
		}
	case []any:
		if v != nil {
			return appendList(out, v)
		}
	}
	raw, err := json.Marshal(v)
	return append(out, raw...), err
}

func appendMap(out []byte, m map[string]any) ([]byte, error) {
	var err error
	out = append(out, '{')
	keys := make([]string, 0, 16) // on the stack, unless there are more
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendString(out, key); err != nil {
			return nil, err
		}
		if out, err = AppendJSON(append(out, ':'), m[key]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func appendList(out []byte, list []any) ([]byte, error) {
	var err error
	out = append(out, '[')
	for i, item := range list {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = AppendJSON(out, item); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// appendString leaves texts with anything that may be escaped to the library.
func appendString(out []byte, text string) ([]byte, error) {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			raw, err := json.Marshal(text)
			return append(out, raw...), err
		}
	}
	out = append(out, '"')
	out = append(out, text...)
	return append(out, '"'), nil
}
