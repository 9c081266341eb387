package expr

import "strings"

const (
	opening = "${"
	closing = '}'
)

// Segment is a part of a string: literal text, or an expression without its
// delimiters.
type Segment struct {
	Text string
	Expr bool
	// Offset is the byte of the string at which Text begins.
	Offset int
}

// TextError is the error of a string that can't be divided.
type TextError struct {
	Problem string
	// Text is the string from the faulty expression on, Offset its first byte.
	Text   string
	Offset int
}

func (e *TextError) Error() string { return e.Problem }

// Split divides a string into its segments; putting the delimiters back around
// the expressions gives the string again. A } inside braces or a CEL string
// literal doesn't end an expression.
func Split(s string) ([]Segment, *TextError) {
	var segments []Segment
	rest := 0
	for {
		start := strings.Index(s[rest:], opening)
		if start < 0 {
			break
		}
		start += rest
		from := start + len(opening)
		end, problem := endOf(s, from)
		if problem != "" {
			return nil, &TextError{Problem: problem, Text: s[from:], Offset: from}
		}
		if start > rest {
			segments = append(segments, Segment{Text: s[rest:start], Offset: rest})
		}
		segments = append(segments, Segment{Text: s[from:end], Expr: true, Offset: from})
		rest = end + 1
	}
	if rest < len(s) {
		segments = append(segments, Segment{Text: s[rest:], Offset: rest})
	}
	return segments, nil
}

// endOf returns the index of the } that ends the expression beginning at i.
func endOf(s string, i int) (int, string) {
	depth := 0
	for i < len(s) {
		switch {
		case s[i] == '"' || s[i] == '\'':
			i = literalEnd(s, i)
		case strings.HasPrefix(s[i:], opening):
			return 0, `an expression inside another one; a literal "${" belongs into quotes`
		case s[i] == '{':
			depth++
			i++
		case s[i] == closing && depth == 0:
			return i, ""
		case s[i] == closing:
			depth--
			i++
		case strings.HasPrefix(s[i:], "//"):
			i = lineEnd(s, i)
		default:
			i++
		}
	}
	return 0, `"${" without its "}"; to write it as text, use ${"${"}`
}

// literalEnd returns the index behind the string literal whose quote is at i, or
// the length of s if the literal doesn't end.
func literalEnd(s string, i int) int {
	raw := isRaw(s, i)
	quote := s[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s[i:], triple) {
		quote = triple
	}
	for i += len(quote); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], quote) {
			return i + len(quote)
		}
	}
	return len(s)
}

// isRaw tells whether the quote at i opens a raw literal: r"…", br'…', Rb"…".
func isRaw(s string, i int) bool {
	prefix := i
	for prefix > 0 && i-prefix < 2 && strings.IndexByte("rRbB", s[prefix-1]) >= 0 {
		prefix--
	}
	if prefix > 0 && isWord(s[prefix-1]) {
		return false // the end of a name, as in bar"…", which isn't CEL anyway
	}
	return strings.ContainsAny(s[prefix:i], "rR")
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// lineEnd skips a CEL comment. One that would swallow the rest of the string
// isn't skipped: the } on its line then ends the expression.
func lineEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n
	}
	return i + 2
}
