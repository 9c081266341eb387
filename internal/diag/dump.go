package diag

import (
	"regexp"
	"strings"
)

// An API server that refuses an object repeats the value that is wrong: a whole pod as Go
// prints it, or a comparison of two. The reason follows, after pages, or stands before.

// goValue matches the beginning of a composite value as Go prints it: core.PodSpec{,
// &v1.Job{, []string{, map[string]string{.
var goValue = regexp.MustCompile(`[&*]*(?:(?:\[\]|map\[[^\]\s]*\])+[&*]*(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\{`)

// repeatedValue matches the text before a value that an API server repeats.
var repeatedValue = regexp.MustCompile(`(?:Invalid|Unsupported|Duplicate) value: `)

const (
	// A repeated text up to maxValueBytes is kept; a longer one is truncated to truncatedValueBytes.
	maxValueBytes       = 100
	truncatedValueBytes = 60
)

// WithoutDumps removes long values from a message of an API server, which repeats them.
// What was refused and why remains.
func WithoutDumps(message string) string {
	message = withoutHunks(message)
	var out strings.Builder
	for rest := message; ; {
		start, end, instead := findDump(rest)
		if start < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:start] + instead)
		rest = rest[end:]
		if instead == "" {
			rest = strings.TrimPrefix(rest, ": ")
		}
	}
	return strings.TrimRight(out.String(), " \t\n:")
}

// start is negative if there is none.
func findDump(text string) (start, end int, instead string) {
	printed := goValue.FindStringIndex(text)
	for from := 0; ; {
		found := repeatedValue.FindStringIndex(text[from:])
		if found == nil {
			break
		}
		at := from + found[1]
		if printed != nil && printed[0] < at {
			break
		}
		switch rest := text[at:]; {
		case printed != nil && printed[0] == at:
			return at, endOf(text, printed[1]-1), ""
		case strings.HasPrefix(rest, "{"), strings.HasPrefix(rest, "["):
			return at, endOf(text, at), ""
		case strings.HasPrefix(rest, `"`):
			if quoted := endOf(text, at); quoted-at > maxValueBytes {
				return at, quoted, Truncate(rest, truncatedValueBytes) + `"`
			}
		}
		from = at
	}
	if printed == nil {
		return -1, 0, ""
	}
	return printed[0], endOf(text, printed[1]-1), Ellipsis
}

// The value begins with a bracket or a quote at from. It is the end of the text if the value is not closed.
func endOf(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '`':
			for i++; i < len(text) && text[i] != '`'; i++ {
			}
		case '{', '[', '(':
			depth++
			continue
		case '}', ']', ')':
			depth--
		default:
			continue
		}
		if depth <= 0 {
			return min(i+1, len(text))
		}
	}
	return len(text)
}

func withoutHunks(text string) string {
	if !strings.Contains(text, "\n@@ ") {
		return text
	}
	var lines []string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		inside = strings.HasPrefix(line, "@@ ") || inside && (line == "" || strings.ContainsRune(" +-\\\t", rune(line[0])))
		if !inside {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
