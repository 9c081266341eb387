// Package regexps bounds regular expressions: nothing interrupts one that takes too long.
//
// Pure: it decides from its arguments.
package regexps

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of regular expressions. RE2 needs as many steps as the text has bytes, times the instructions of the compiled
// pattern, each of about 10ns; no deadline interrupts it.
const (
	// maxPattern is in bytes.
	maxPattern = 8 << 10
	// maxFoldedRanges bounds the ranges of a pattern that ignores case, which go beyond ASCII: to parse one takes
	// milliseconds.
	maxFoldedRanges = 8
	// maxUnicodeClasses bounds the classes such as \p{L}; one can have hundreds of ranges.
	maxUnicodeClasses = 256
	maxSteps          = 8 << 20
	compileSteps      = 128
	// maxReadings bounds how often findAll reads a text. A pattern such as a|.*b reads all the rest for each match.
	maxReadings = 16
)

var (
	errPatternTooLong = fmt.Errorf("the pattern of a regular expression has more than %d bytes: shorten it", maxPattern)
	errFoldedRanges   = fmt.Errorf("the pattern of a regular expression that ignores case has more than %d ranges of characters beyond ASCII: "+
		`use classes such as \p{L} instead`, maxFoldedRanges)
	errUnicodeClasses = fmt.Errorf(`the pattern of a regular expression has more than %d classes such as \p{L}: use fewer of them`, maxUnicodeClasses)
)

var (
	ignoresCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)
	widerRange  = regexp.MustCompile(`-(\\x|[^\x00-\x7f])`)
)

// Regexp is a regular expression that refuses texts that would take it too long.
type Regexp struct {
	re   *regexp.Regexp
	size int
	// again returns an expression for a text behind its first character. Its group is the next match.
	again func() (*regexp.Regexp, error)
}

// Compile returns the regular expression of a pattern.
func Compile(pattern string) (*Regexp, error) {
	parsed, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	r := &Regexp{size: instructions(parsed) + 2}
	if err := r.check(""); err != nil {
		return nil, err
	}
	if r.re, err = regexp.Compile(pattern); err != nil {
		return nil, err
	}
	r.again = sync.OnceValues(func() (*regexp.Regexp, error) {
		removeGroups(parsed)
		return regexp.Compile(`^(?s:.)(?s:.*?)(` + parsed.String() + `)`)
	})
	return r, nil
}

func parse(pattern string) (*syntax.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, errPatternTooLong
	}
	if ignoresCase.MatchString(pattern) && len(widerRange.FindAllStringIndex(pattern, maxFoldedRanges+1)) > maxFoldedRanges {
		return nil, errFoldedRanges
	}
	if strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`) > maxUnicodeClasses {
		return nil, errUnicodeClasses
	}
	return syntax.Parse(pattern, syntax.Perl)
}

func removeGroups(re *syntax.Regexp) {
	for re.Op == syntax.OpCapture {
		*re = *re.Sub[0]
	}
	for _, sub := range re.Sub {
		removeGroups(sub)
	}
}

// instructions is about the size of the program of an expression, in which repetitions are copied as often as they count.
func instructions(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpConcat:
		return size
	case syntax.OpAlternate:
		return size + len(re.Sub) - 1
	case syntax.OpCapture:
		return size + 2
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(re.Min, 1)*size + 1
		}
		return re.Max*(size+1) - re.Min
	default:
		return size + 1
	}
}

// Steps returns the steps that a search in a text takes at most.
func (r *Regexp) Steps(text string) int { return (len(text) + compileSteps) * r.size }

func (r *Regexp) check(text string) error {
	if r.Steps(text) > maxSteps {
		return r.tooManySteps(text)
	}
	return nil
}

func (r *Regexp) tooManySteps(text string) error {
	return fmt.Errorf("a regular expression of %d instructions needs too many steps for a text of %d bytes: "+
		"shorten the text or the pattern; each counted repetition such as {1,100} counts as so many copies", r.size, len(text))
}

// Matches reports whether the expression matches a part of a text.
func (r *Regexp) Matches(text string) (bool, error) {
	if err := r.check(text); err != nil {
		return false, err
	}
	return r.re.MatchString(text), nil
}

// Find returns the first match in a text, or an empty string.
func (r *Regexp) Find(text string) (string, error) {
	if err := r.check(text); err != nil {
		return "", err
	}
	return r.re.FindString(text), nil
}

// FindSubmatch returns the first match in a text and its groups, or nil.
func (r *Regexp) FindSubmatch(text string) ([]string, error) {
	if err := r.check(text); err != nil {
		return nil, err
	}
	return r.re.FindStringSubmatch(text), nil
}

// ReplaceAll replaces all matches in a text, as regexp.Regexp does.
func (r *Regexp) ReplaceAll(text, by string) (string, error) {
	if _, err := r.FindAll(text, -1); err != nil {
		return "", err
	}
	return r.re.ReplaceAllString(text, by), nil
}

// FindAll returns all matches in a text, or the first ones if limit isn't negative, as regexp.Regexp does. It counts what it reads.
func (r *Regexp) FindAll(text string, limit int) ([]string, error) {
	if err := r.check(text); err != nil {
		return nil, err
	}
	in := &counted{text: text, left: min(maxReadings*(len(text)+compileSteps), maxSteps/r.size)}
	var found []string
	at, previous := 0, -1
	for at <= len(text) && (limit < 0 || len(found) < limit) {
		start, end, err := r.next(in, at)
		if err != nil {
			return nil, err
		}
		if in.left < 0 {
			return nil, r.tooManySteps(text)
		}
		if start < 0 {
			break
		}
		if end > at || start != previous {
			found = append(found, text[start:end])
		}
		if previous = end; end > at {
			at = end
			continue
		}
		_, width := utf8.DecodeRuneInString(text[at:])
		at += max(width, 1)
	}
	return found, nil
}

// next starts at an index; start is negative if there is no match.
func (r *Regexp) next(in *counted, at int) (start, end int, err error) {
	if in.at = at; at == 0 {
		if match := r.re.FindReaderIndex(in); match != nil {
			return match[0], match[1], nil
		}
		return -1, -1, nil
	}
	again, err := r.again()
	if err != nil {
		return 0, 0, err
	}
	_, width := utf8.DecodeLastRuneInString(in.text[:at])
	in.at -= width
	from := in.at
	if match := again.FindReaderSubmatchIndex(in); match != nil {
		return from + match[2], from + match[3], nil
	}
	return -1, -1, nil
}

// counted reads a text, and ends after too many bytes.
type counted struct {
	text     string
	at, left int
}

// ReadRune implements io.RuneReader.
func (c *counted) ReadRune() (rune, int, error) {
	if c.left < 0 || c.at >= len(c.text) {
		return 0, 0, io.EOF
	}
	r, width := utf8.DecodeRuneInString(c.text[c.at:])
	c.at += width
	c.left -= width
	return r, width, nil
}
