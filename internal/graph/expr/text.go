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

// TextError is the error of a string that cannot be split.
type TextError struct {
	Problem string
	// Text is the rest of the string from the faulty expression on, which begins at the
	// byte Offset.
	Text   string
	Offset int
}

func (e *TextError) Error() string { return e.Problem }

// Split splits a string into segments: with the delimiters around the expressions they are
// the string again. A } inside braces or inside a CEL string literal does not end an
// expression.
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
		end, problem := expressionEnd(s, from)
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

// expressionEnd returns the index of the } that ends the expression beginning at i.
func expressionEnd(s string, i int) (int, string) {
	depth := 0
	for i < len(s) {
		switch {
		case s[i] == '"' || s[i] == '\'':
			i = literalEnd(s, i)
		case strings.HasPrefix(s[i:], opening):
			return 0, `an expression inside another one; put a literal "${" in quotes`
		case s[i] == '{':
			depth++
			i++
		case s[i] == closing && depth == 0:
			return i, ""
		case s[i] == closing:
			depth--
			i++
		case strings.HasPrefix(s[i:], "//"):
			i = commentEnd(s, i)
		default:
			i++
		}
	}
	return 0, `"${" without its "}"; to write it as text, use ${"${"}`
}

// literalEnd returns the index after the string literal with its quote at i, or the length
// of s if the literal is not terminated.
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

// isRaw reports whether the quote at i opens a raw literal: r"…", br'…', Rb"…".
func isRaw(s string, i int) bool {
	prefix := i
	for prefix > 0 && i-prefix < 2 && strings.IndexByte("rRbB", s[prefix-1]) >= 0 {
		prefix--
	}
	if prefix > 0 && isWord(s[prefix-1]) {
		return false // the end of a name, as in bar"…", which is not valid CEL
	}
	return strings.ContainsAny(s[prefix:i], "rR")
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// commentEnd returns the index after a CEL comment. A comment that would extend to the end
// of the string is not skipped: the } on its line ends the expression.
func commentEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n
	}
	return i + 2
}

// EndsBefore reports whether an expression ends in the text, which is its beginning without its opening delimiter.
func EndsBefore(text string) bool {
	_, problem := expressionEnd(text, 0)
	return problem == ""
}
