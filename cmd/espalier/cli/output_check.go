package cli

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// checkedOutput keeps the first error of its writes, so that a program whose output is incomplete fails.
type checkedOutput struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

// checkOutput returns an output with the errors of its writes. A terminal is returned as it is, since its size is asked for.
func checkOutput(to io.Writer) io.Writer {
	if file, ok := to.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return to
	}
	return &checkedOutput{to: to}
}

// Write implements io.Writer.
func (o *checkedOutput) Write(text []byte) (int, error) {
	n, err := o.to.Write(text)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// writeError is the first error of the writes to an output; nil if there was none.
func writeError(out io.Writer) error {
	o, ok := out.(*checkedOutput)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
