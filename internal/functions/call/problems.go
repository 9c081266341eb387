package call

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
)

// maxProblems bounds how many problems one result tells.
const maxProblems = 50

// Told is a result's text of what is wrong with an input, one problem a line.
func Told(problems diag.List) string {
	lines := make([]string, 0, len(problems))
	for i, p := range problems {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		lines = append(lines, diag.Cut(p.String(), 1000))
	}
	return strings.Join(lines, "\n")
}

// Warns is the result that tells people of what keeps nothing from being done; there is
// none if there is nothing to tell.
func Warns(what string, notes diag.List) []Result {
	if len(notes) == 0 {
		return nil
	}
	return []Result{{Warning, what + Told(notes)}}
}
