package patchandtransform

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPadding bounds the sum of the widths and precisions of a format. No real name or field
// needs as much.
const maxPadding = 1 << 16

// format is fmt.Sprintf in which numbers match verbs for integers and floats. It fails if the
// string could exceed maxText.
func format(text string, values ...any) (string, error) {
	parsed := parseFormat(text)
	times := 1 // how often the format can write a value
	if parsed.reorders {
		times = max(1, len(parsed.verbs))
	}
	if len(fmt.Sprint(values...)) > 4*maxText/times {
		return "", errTextTooLong
	}
	return fmt.Sprintf(text, parsed.arguments(values)...), nil
}

// formatVerbs are the verbs of a format, as package fmt defines them.
type formatVerbs struct {
	verbs []formatVerb
	// reorders says that verbs have argument indexes: %[2]s.
	reorders bool
	// star says that a width or precision is an argument: %*d.
	star bool
	// bad says that fmt finds an index bad. It then consumes no argument, so the arguments of later verbs shift.
	bad     bool
	highest int
	padding int
}

// formatVerb is a verb and the argument that it takes, counted from 0.
type formatVerb struct {
	letter   rune
	argument int
}

// parseFormat finds the verbs of a format; %% is not one.
func parseFormat(text string) formatVerbs {
	s := formatScanner{text: text}
	for {
		skipped := strings.IndexByte(s.text, '%')
		if skipped < 0 {
			return s.found
		}
		s.text = s.text[skipped+1:]
		s.verb()
	}
}

// formatScanner scans a format; text is the rest of it.
type formatScanner struct {
	text  string
	next  int // the argument that the next verb takes
	found formatVerbs
}

// verb reads what follows a percent sign: flags, width, precision and the letter.
func (s *formatScanner) verb() {
	s.text = strings.TrimLeft(s.text, "+-# 0")
	s.numberAfter(s.index())
	if rest, ok := strings.CutPrefix(s.text, "."); ok {
		s.text = rest
		s.numberAfter(s.index())
	}
	s.index()
	letter, size := utf8.DecodeRuneInString(s.text)
	s.text = s.text[size:]
	if size == 0 || letter == '%' {
		return
	}
	s.found.verbs = append(s.found.verbs, formatVerb{letter, s.next})
	s.next++
}

// index reads the number of an argument, as in %[2]s, and reports whether there is one.
func (s *formatScanner) index() bool {
	rest, ok := strings.CutPrefix(s.text, "[")
	if !ok {
		return false
	}
	inside, after, ok := strings.Cut(rest, "]")
	if !ok {
		s.text, s.found.bad = rest, true
		return true
	}
	s.text, s.found.reorders = after, true
	n, all := leadingNumber(inside)
	if !all || n == 0 {
		s.found.bad = true
		return true
	}
	s.next, s.found.highest = n-1, max(s.found.highest, n)
	return true
}

// numberAfter reads a width or a precision. After an index only a star may follow: the index is its own.
func (s *formatScanner) numberAfter(index bool) {
	if index && s.text != "" && strings.ContainsRune("0123456789.", rune(s.text[0])) {
		s.found.bad = true
	}
	s.number()
}

func (s *formatScanner) number() {
	if rest, ok := strings.CutPrefix(s.text, "*"); ok {
		s.text, s.found.star = rest, true
		s.next++
		return
	}
	n, _ := leadingNumber(s.text)
	s.text = strings.TrimLeft(s.text, "0123456789")
	s.found.padding = min(s.found.padding+n, maxNumber)
}

const maxNumber = 10_000_000

// leadingNumber parses the digits at the start of a string; all is true if it has only digits.
func leadingNumber(text string) (n int, all bool) {
	for i, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return n, false
		}
		n = min(10*n+int(digit-'0'), maxNumber)
		if i == len(text)-1 {
			return n, true
		}
	}
	return n, false
}

// arguments are the values for Sprintf. A number that only verbs for numbers use is wrapped, so it matches verbs for
// integers and floats. Other values stay as they are, because package fmt also prints the type of a value that
// matches no verb; and all do if an index is bad.
func (f formatVerbs) arguments(values []any) []any {
	out := slices.Clone(values)
	if f.bad || f.highest > len(values) {
		return out
	}
	for i, v := range out {
		switch v.(type) {
		case int64, float64:
			if f.isNumber(i) {
				out[i] = number{v}
			}
		}
	}
	return out
}

// isNumber is true for an argument that only verbs for numbers use.
func (f formatVerbs) isNumber(argument int) bool {
	used := false
	for _, v := range f.verbs {
		if v.argument != argument {
			continue
		}
		if !strings.ContainsRune("bcdeEfFgGoOqsvxXU", v.letter) {
			return false
		}
		used = true
	}
	return used
}
