// Package compressed keeps many texts that resemble each other in little memory, such as encoded schemas. Each is compressed with
// the first of its family as the dictionary, so that it takes as much as it differs from that.
//
// Pure: it decides from values alone.
package compressed

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxDictionary is the size of the window of DEFLATE (RFC 1951) in bytes: what is further away cannot be referred to.
const maxDictionary = 32 << 10

// Family compresses texts that resemble each other. The zero value is ready. It is safe for concurrent use.
type Family struct {
	mu    sync.Mutex
	first *dictionary
}

// Text is a compressed text. The zero value is the empty text. It is immutable.
type Text struct {
	data       string
	dictionary *dictionary
}

// dictionary is a text that others resemble. The writers and readers of the texts take much memory, so that idle ones are left to the
// garbage collector.
type dictionary struct {
	text             []byte
	writers, readers sync.Pool
}

// Compress returns a text compressed. It takes some tens of microseconds for a kilobyte.
func (f *Family) Compress(text []byte) Text {
	if len(text) == 0 {
		return Text{}
	}
	return f.dictionary(text).compress(text)
}

// dictionary returns the dictionary of the family, which is the given text if it is the first one.
func (f *Family) dictionary(text []byte) *dictionary {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = &dictionary{text: bytes.Clone(text[max(0, len(text)-maxDictionary):])}
	}
	return f.first
}

func (d *dictionary) compress(text []byte) Text {
	var out bytes.Buffer
	w, idle := d.writers.Get().(*flate.Writer)
	if idle {
		w.Reset(&out)
	} else {
		var err error
		if w, err = flate.NewWriterDict(&out, flate.DefaultCompression, d.text); err != nil {
			panic(fmt.Sprintf("compress: %v", err)) // the level is valid
		}
	}
	if _, err := w.Write(text); err != nil {
		panic(fmt.Sprintf("compress: %v", err)) // a buffer takes all
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("compress: %v", err))
	}
	d.writers.Put(w)
	return Text{out.String(), d}
}

// Size is the memory of the compressed text in bytes.
func (t Text) Size() int { return len(t.data) }

// Bytes returns the text, in memory of the caller's own.
func (t Text) Bytes() []byte {
	if t.dictionary == nil {
		return nil
	}
	r, idle := t.dictionary.readers.Get().(io.Reader)
	source := strings.NewReader(t.data)
	if !idle {
		r = flate.NewReaderDict(source, t.dictionary.text)
	} else if err := r.(flate.Resetter).Reset(source, t.dictionary.text); err != nil {
		panic(fmt.Sprintf("decompress: %v", err))
	}
	out, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("decompress: %v", err)) // Compress has made it
	}
	t.dictionary.readers.Put(r)
	return out
}
