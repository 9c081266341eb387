package kube

import "github.com/espalier-dev/espalier/internal/diag"

// maxErrorLength bounds the text of an error, in bytes: webhooks and aggregated APIs write any.
const maxErrorLength = 8 << 10

// Concise wraps the error of a request so its text leaves out long values that the API server repeats, is bounded and
// printable. errors.As and errors.Is still see the error.
func Concise(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := diag.TruncateMiddle(diag.WithoutDumps(text), maxErrorLength); short != text {
		return conciseError{err, short}
	}
	return err
}

type conciseError struct {
	error
	text string
}

func (p conciseError) Error() string { return p.text }
func (p conciseError) Unwrap() error { return p.error }
