package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// lineReader returns one line of a stream with each Read, without its end. API servers write each
// event of a watch as one line: JSON has no line ends within its values.
//
// It has a buffer only while it reads a line: most watches are idle nearly all of the time, and there are a few
// for each kind.
type lineReader struct {
	io.Closer
	stream io.Reader
	// lines reads the stream; nil while nothing is buffered.
	lines *bufio.Reader
	// first is the first byte of what is read next, if there is one, and firstErr what came with it.
	first    []byte
	firstErr error
	// left is what did not fit into the buffer of the former Read.
	left []byte
}

// readAhead is the size of the buffer for a stream. Most events are smaller.
const readAhead = 8 << 10

var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readAhead) }}

func newLineReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{Closer: r, stream: r}
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

// It skips empty lines.
func (r *lineReader) next() ([]byte, error) {
	for {
		if err := r.awaitData(); err != nil {
			return nil, err
		}
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

// What was returned before is not valid any more.
func (r *lineReader) awaitData() error {
	if r.lines != nil && r.lines.Buffered() > 0 {
		return nil
	}
	r.release()
	var first [1]byte
	for {
		n, err := r.stream.Read(first[:])
		if n == 0 && err == nil {
			continue
		}
		if n == 0 {
			return err
		}
		r.first, r.firstErr = first[:], err
		r.lines, _ = buffers.Get().(*bufio.Reader)
		r.lines.Reset((*begunStream)(r))
		return nil
	}
}

// Other streams use the buffer next.
func (r *lineReader) release() {
	if r.lines == nil {
		return
	}
	r.lines.Reset(nil)
	buffers.Put(r.lines)
	r.lines = nil
}

// begunStream is the stream of a lineReader with the byte that was read already.
type begunStream lineReader

// Read implements io.Reader.
func (s *begunStream) Read(into []byte) (int, error) {
	if len(s.first) == 0 || len(into) == 0 {
		return s.stream.Read(into)
	}
	into[0], s.first = s.first[0], nil
	return 1, s.firstErr
}
