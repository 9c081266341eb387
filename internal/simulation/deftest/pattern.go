package deftest

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of texts that are drawn from a pattern.
const (
	maxPatternTries = 32
	maxPatternDepth = 64   // of nested groups
	maxPatternText  = 4096 // bytes of a text
	maxLongText     = 256  // characters of a text that is as long as can be
)

// ofPattern draws a text that matches a pattern, one of four times one that is as long as can be.
func (d drawing) ofPattern(pattern string, least, most int) (string, bool) {
	if pattern == "" {
		return "", false
	}
	if longest := min(most, maxLongText); longest > least && d.IntN(4) == 0 {
		if text, ok := d.matching(pattern, longest, longest); ok {
			return text, true
		}
	}
	return d.matching(pattern, least, most)
}

// matching draws a text that matches a pattern, with a length in characters between bounds. It reports false
// if none was found in a bounded number of tries, and for an invalid pattern.
func (d drawing) matching(pattern string, least, most int) (string, bool) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return "", false
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	for try := range maxPatternTries {
		// Every other try has many repetitions, towards the least length.
		t := patternText{drawing: d, more: 3, text: &strings.Builder{}}
		if try%2 == 1 {
			t.more, t.many = max(least*3/2, try), true
		}
		t.write(parsed, 0)
		text := t.text.String()
		if n := utf8.RuneCountInString(text); n >= least && n <= most && matches.MatchString(text) {
			return text, true
		}
	}
	return "", false
}

// patternText is a text that is drawn from a pattern.
type patternText struct {
	drawing
	// more is how many repetitions there are at most beyond those that must be.
	more int
	// many says that there are at least half of them.
	many bool
	text *strings.Builder
}

// write draws what an expression matches. Positions, such as the beginning of a line, are left to chance.
func (t patternText) write(e *syntax.Regexp, depth int) {
	if depth > maxPatternDepth || t.text.Len() > maxPatternText {
		return
	}
	switch e.Op { //nolint:exhaustive // the others match no text
	case syntax.OpLiteral:
		t.text.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		t.text.WriteRune(t.character(e.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		t.text.WriteByte(characters[t.IntN(len(characters))])
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			t.write(sub, depth+1)
		}
	case syntax.OpAlternate:
		t.write(e.Sub[t.IntN(len(e.Sub))], depth+1)
	case syntax.OpCapture:
		t.write(e.Sub[0], depth+1)
	case syntax.OpStar:
		t.repeat(e.Sub[0], 0, -1, depth)
	case syntax.OpPlus:
		t.repeat(e.Sub[0], 1, -1, depth)
	case syntax.OpQuest:
		t.repeat(e.Sub[0], 0, 1, depth)
	case syntax.OpRepeat:
		t.repeat(e.Sub[0], e.Min, e.Max, depth)
	}
}

// repeat draws an expression several times; most is -1 where nothing bounds it.
func (t patternText) repeat(e *syntax.Regexp, least, most, depth int) {
	if most < 0 || most > least+t.more {
		most = least + t.more
	}
	if t.many {
		least += (most - least + 1) / 2
	}
	for range least + t.IntN(most-least+1) {
		t.write(e, depth+1)
	}
}

// character draws one of the ranges of a class: an ASCII letter or digit if it has one.
func (t patternText) character(ranges []rune) rune {
	var usual []rune
	for _, r := range characters {
		if inRanges(ranges, r) {
			usual = append(usual, r)
		}
	}
	if len(usual) > 0 && t.IntN(4) > 0 {
		return usual[t.IntN(len(usual))]
	}
	var printable []rune
	for r := rune(' '); r <= '~'; r++ {
		if inRanges(ranges, r) {
			printable = append(printable, r)
		}
	}
	if len(printable) > 0 {
		return printable[t.IntN(len(printable))]
	}
	if len(ranges) == 0 {
		return utf8.RuneError // a class without characters matches nothing
	}
	return ranges[0]
}

func inRanges(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}
