package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

// Limits on messages. In JSON, a text takes up to six times its length.
const (
	maxMessageBytes = 6*language.MaxTextBytes + 1<<20
	maxHeaderBytes  = 4 << 10
)

// codec frames messages as the protocol does, and bounds them.
type codec struct{}

// WriteObject writes a message.
func (codec) WriteObject(w io.Writer, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "Content-Length: %d\r\n\r\n", len(raw)); err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// ReadObject reads a message. One that is too large is skipped: its end is known from its header.
func (codec) ReadObject(r *bufio.Reader, into any) error {
	length, err := readHeader(r)
	if err != nil {
		return err
	}
	if length > maxMessageBytes {
		if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
			return unexpected(err)
		}
		return &invalidMessage{jsonrpc2.CodeInvalidRequest, fmt.Errorf("the message has %d bytes and was ignored: more than %d bytes are not read", length,
			maxMessageBytes)}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return decode(body, into)
}

// unexpected is the error of a stream that ends inside a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readHeader reads the header of a message and returns the length of its body.
func readHeader(r *bufio.Reader) (length int, err error) {
	length = -1
	for total := 0; ; {
		line, err := r.ReadSlice('\n')
		total += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || total > maxHeaderBytes:
			return 0, fmt.Errorf("the header of a message has more than %d bytes", maxHeaderBytes)
		case err != nil:
			return 0, err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		switch {
		case name == "" && length < 0:
			return 0, errors.New("a message has no Content-Length")
		case name == "":
			return length, nil
		case strings.EqualFold(name, "Content-Length"):
			length, err = strconv.Atoi(strings.TrimSpace(value))
			if err != nil || length < 0 {
				return 0, fmt.Errorf("the Content-Length %q is not a number of bytes", strings.TrimSpace(value))
			}
		}
	}
}
