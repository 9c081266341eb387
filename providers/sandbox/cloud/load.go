package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
)

// DamageError is that a file holds what no cloud has written.
type DamageError struct {
	// Line is where, from 1; 0 if each line is well and what they say together isn't.
	Line int
	Err  error
}

// Error names the line and the damage.
func (e *DamageError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("damaged: %v", e.Err)
	}
	return fmt.Sprintf("damaged in line %d: %v", e.Line, e.Err)
}

// Unwrap is what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is a change as a line of the ledger.
func line(c change) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return frame(text), nil
}

func frame(text []byte) []byte {
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

// unframe takes the checksum off a line without its end.
func unframe(text []byte) ([]byte, error) {
	sum, body, ok := bytes.Cut(text, []byte(" "))
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli)) {
		return nil, fmt.Errorf("the checksum doesn't fit")
	}
	return body, nil
}

// load makes a world of a ledger. It also says how much of the ledger counts: all but a
// last line without its end.
func load(data []byte) (*world, int64, error) {
	rest, ok := bytes.CutPrefix(data, []byte(title))
	if !ok {
		return nil, 0, &DamageError{1, fmt.Errorf("this is no ledger, or not of this format")}
	}
	w, good, number := newWorld(), int64(len(title)), 1
	for {
		text, after, ended := bytes.Cut(rest, []byte("\n"))
		if !ended {
			break
		}
		number++
		c, err := parse(text)
		if err != nil {
			return nil, 0, &DamageError{number, err}
		}
		w.apply(c)
		rest, good = after, good+int64(len(text))+1
	}
	if number == 1 {
		return nil, 0, &DamageError{2, fmt.Errorf("the world is missing")}
	}
	if err := w.check(); err != nil {
		return nil, 0, &DamageError{0, err}
	}
	return w, good, nil
}

func parse(text []byte) (change, error) {
	var c change
	body, err := unframe(text)
	if err != nil {
		return c, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields() // what isn't understood would be lost with the next rewrite
	if err := d.Decode(&c); err != nil {
		return c, err
	}
	if _, err := d.Token(); err != io.EOF {
		return c, fmt.Errorf("there is more than one change")
	}
	return c, nil
}
