package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// lineReader returns one line of a stream with each Read, without its end. API servers write each
// event of a watch as one line: JSON has no line ends within its values.
type lineReader struct {
	io.Closer
	lines *bufio.Reader
	// left is what did not fit into the buffer of the former Read.
	left []byte
}

// readAhead is the size of the buffer for a stream. Most events are smaller.
const readAhead = 8 << 10

func newLineReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{Closer: r, lines: bufio.NewReaderSize(r, readAhead)}
}

// Read implements io.Reader as streaming.NewDecoder expects it of a frame reader: the error
// io.ErrShortBuffer says that there is more of the frame.
func (r *lineReader) Read(into []byte) (int, error) {
	if len(r.left) == 0 {
		line, err := r.next()
		if err != nil {
			return 0, err
		}
		r.left = line
	}
	n := copy(into, r.left)
	r.left = r.left[n:]
	if len(r.left) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// next returns the next line that is not empty.
func (r *lineReader) next() ([]byte, error) {
	for {
		line, err := r.lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long := append([]byte(nil), line...)
			var rest []byte
			rest, err = r.lines.ReadBytes('\n')
			line = append(long, rest...)
		}
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		switch {
		case len(line) > 0 && err == nil, len(line) > 0 && errors.Is(err, io.EOF) && json.Valid(line):
			return line, nil
		case len(line) > 0 && errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF // the connection broke within an event
		case err != nil:
			return nil, err
		}
	}
}
