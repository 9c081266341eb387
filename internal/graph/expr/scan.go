package expr

import "strings"

// scan is what is known of an incomplete expression without parsing it.
type scan struct {
	source string
	// openers are the opening brackets by their closing ones, and literals the beginnings of string literals by the byte after them.
	openers, literals map[int]int
	// open lists the outermost bracket first.
	open []openBracket
	// isInLiteral says that the expression ends inside a string literal or a comment.
	isInLiteral bool
}

// openBracket is a bracket that is not closed, with the beginnings of what the commas separate in it.
type openBracket struct {
	at   int
	args []int
}

func scanExpression(source string) scan {
	s := scan{source: source, openers: map[int]int{}, literals: map[int]int{}}
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == '"' || c == '\'':
			end := literalEnd(source, i)
			if end == len(source) && !isTerminated(source[i:]) {
				s.isInLiteral = true
				return s
			}
			s.literals[end] = i
			i = end
			continue
		case strings.HasPrefix(source[i:], "//"):
			n := strings.IndexByte(source[i:], '\n')
			if n < 0 {
				s.isInLiteral = true
				return s
			}
			i += n
			continue
		case strings.IndexByte("([{", c) >= 0:
			s.open = append(s.open, openBracket{at: i, args: []int{i + 1}})
		case strings.IndexByte(")]}", c) >= 0 && len(s.open) > 0:
			s.openers[i] = s.open[len(s.open)-1].at
			s.open = s.open[:len(s.open)-1]
		case c == ',' && len(s.open) > 0:
			top := &s.open[len(s.open)-1]
			top.args = append(top.args, i+1)
		}
		i++
	}
	return s
}

// isTerminated reports whether a string literal that ends with the text has its closing quote.
func isTerminated(literal string) bool {
	quote := literal[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(literal, triple) {
		return len(literal) >= 6 && strings.HasSuffix(literal, triple)
	}
	return len(literal) >= 2 && strings.HasSuffix(literal, quote) && !strings.HasSuffix(literal, `\`+quote)
}

func wordStart(source string, end int) int {
	for end > 0 && isWord(source[end-1]) {
		end--
	}
	return end
}

// operandBefore is the end of the value that a dot before a byte selects from; false without a dot.
func operandBefore(source string, at int) (int, bool) {
	at = len(strings.TrimRight(source[:at], " \t\r\n"))
	if strings.HasSuffix(source[:at], ".?") {
		at--
	}
	if !strings.HasSuffix(source[:at], ".") {
		return 0, false
	}
	return len(strings.TrimRight(source[:at-1], " \t\r\n")), true
}

// chainStart is the beginning of the value that ends before a byte: names, calls and indexes that follow each other.
func (s *scan) chainStart(end int) int {
	for end > 0 {
		opener, closed := s.openers[end-1]
		begin, isLiteral := s.literals[end]
		switch {
		case isLiteral:
			return wordStart(s.source, begin) // with the prefix of a raw literal
		case closed:
			end = opener
			if s.source[opener] == '{' || end == 0 || !isWord(s.source[end-1]) && strings.IndexByte(")]", s.source[end-1]) < 0 {
				return end // a list, a map, or brackets around a value
			}
			continue
		}
		start := wordStart(s.source, end)
		before, isSelection := operandBefore(s.source, start)
		if !isSelection || start == end {
			return start
		}
		end = before
	}
	return 0
}
