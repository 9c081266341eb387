package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// decode decodes a JSON object as unstructured objects hold it: numbers are int64 where they are whole
// and fit, and float64 otherwise. Like the decoder of Kubernetes it takes the last of several values of
// a key, and replaces bytes that are not UTF-8.
func decode(data []byte) (map[string]any, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.reader.Reset(data)
	d.tokens.Reset(&d.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := d.tokens.PeekKind(); kind != jsontext.KindBeginObject {
		_, err := d.tokens.ReadToken()
		return nil, errors.Join(fmt.Errorf("the JSON value is no object"), err)
	}
	out, err := d.object()
	if err != nil {
		return nil, err
	}
	if _, err := d.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("there is something after the JSON object"), err)
	}
	return out, nil
}

// Its buffers and its keys are used again.
type decoder struct {
	reader bytes.Reader
	tokens *jsontext.Decoder
	// keys are known from the objects that were decoded before: most have the same.
	keys map[string]string
}

var decoders = sync.Pool{New: func() any {
	return &decoder{tokens: jsontext.NewDecoder(bytes.NewReader(nil)), keys: map[string]string{}}
}}

// maxKeys bounds the keys that a decoder remembers, and maxKeyLength their length: keys of maps can be
// data.
const (
	maxKeys      = 4096
	maxKeyLength = 64
)

func (d *decoder) object() (map[string]any, error) {
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for d.tokens.PeekKind() != jsontext.KindEndObject {
		raw, err := d.tokens.ReadValue()
		if err != nil {
			return nil, err
		}
		key, err := d.key(raw)
		if err != nil {
			return nil, err
		}
		if out[key], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.tokens.ReadToken()
	return out, err
}

func (d *decoder) value() (any, error) {
	switch d.tokens.PeekKind() {
	case jsontext.KindBeginObject:
		return d.object()
	case jsontext.KindBeginArray:
		return d.array()
	default:
	}
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return nil, err
	}
	switch raw.Kind() {
	case jsontext.KindString:
		return text(raw)
	case jsontext.KindNumber:
		return number(raw)
	case jsontext.KindTrue, jsontext.KindFalse:
		return raw.Kind() == jsontext.KindTrue, nil
	default: // null
		return nil, nil
	}
}

func (d *decoder) array() (any, error) {
	if _, err := d.tokens.ReadToken(); err != nil {
		return nil, err
	}
	out := []any{}
	for d.tokens.PeekKind() != jsontext.KindEndArray {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.tokens.ReadToken()
	return out, err
}

// A known key costs no allocation.
func (d *decoder) key(raw jsontext.Value) (string, error) {
	if len(raw) > maxKeyLength {
		return text(raw)
	}
	if known, ok := d.keys[string(raw)]; ok {
		return known, nil
	}
	key, err := text(raw)
	if err == nil && len(d.keys) < maxKeys {
		d.keys[string(raw)] = key
	}
	return key, err
}

func text(raw jsontext.Value) (string, error) {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), nil
	}
	out, err := jsontext.AppendUnquote(nil, raw)
	if err != nil && !isInvalidUTF8(raw) {
		return "", err
	}
	return string(out), nil
}

// isInvalidUTF8 reports whether a JSON string is not UTF-8: then AppendUnquote returns an error, and the text with
// replacements.
func isInvalidUTF8(raw jsontext.Value) bool {
	return raw.IsValid(jsontext.AllowInvalidUTF8(true)) && !raw.IsValid()
}

func number(raw jsontext.Value) (any, error) {
	if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err
}
