package cli

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag"
)

// prose returns a writer for lines that people read: on a terminal, they are wrapped to its width. Each write must end with a line.
func prose(to io.Writer) io.Writer {
	if width := widthOf(to); width > 0 {
		return lineWrapper{to, width}
	}
	return to
}

// fits says whether no line of a text is longer than width; a width of 0 means no limit.
func fits(text string, width int) bool {
	for line := range strings.Lines(text) {
		if width > 0 && utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
			return false
		}
	}
	return true
}

// lineWrapper wraps lines.
type lineWrapper struct {
	to    io.Writer
	width int
}

// Write implements io.Writer.
func (w lineWrapper) Write(text []byte) (int, error) {
	_, err := io.WriteString(w.to, diag.WrapLines(string(text), w.width))
	return len(text), err
}
