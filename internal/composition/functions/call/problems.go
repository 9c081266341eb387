package call

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
)

const maxProblems = 50

// FormatProblems is the message of a result about problems of an input, one per line.
func FormatProblems(problems diag.List) string {
	lines := make([]string, 0, len(problems))
	for i, p := range problems {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		lines = append(lines, diag.Truncate(p.String(), 1000))
	}
	return strings.Join(lines, "\n")
}

// Warnings is a Warning result that lists problems; none if there are no problems.
func Warnings(prefix string, problems diag.List) []Result {
	if len(problems) == 0 {
		return nil
	}
	return []Result{{Warning, prefix + FormatProblems(problems)}}
}
