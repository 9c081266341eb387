package lsp

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/sourcegraph/jsonrpc2"
)

// stream replies to messages that cannot be decoded, and reads on: their ends are known from their headers.
type stream struct {
	jsonrpc2.ObjectStream
	// failure is the error after which nothing can be read. The library ends the connection then, and only logs it.
	failure error
}

// invalidMessage is the error of a message whose end was read, and that cannot be decoded or is too large.
type invalidMessage struct {
	code int64
	err  error
}

func (m *invalidMessage) Error() string { return m.err.Error() }

// decode decodes the body of a message.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	switch {
	case err == nil:
		return nil
	case json.Valid(body):
		return &invalidMessage{jsonrpc2.CodeInvalidRequest, err}
	}
	return &invalidMessage{jsonrpc2.CodeParseError, err}
}

// ReadObject reads the next message that can be decoded.
func (s *stream) ReadObject(into any) error {
	for {
		err := s.ObjectStream.ReadObject(into)
		var invalid *invalidMessage
		if !errors.As(err, &invalid) {
			s.failure = err
			return err
		}
		reflect.ValueOf(into).Elem().SetZero() // the library decides by its fields what the next message is
		reply := map[string]any{"jsonrpc": "2.0", "id": nil, "error": jsonrpc2.Error{Code: invalid.code, Message: invalid.Error()}}
		if err := s.WriteObject(reply); err != nil {
			return err
		}
	}
}
