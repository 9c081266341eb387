package postgresql

import (
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// A mark is a comment in one line: "managed by espalier: <owner> (<id>)".
const (
	markPrefix = "managed by espalier: "
	markSuffix = ")"
)

// formatMark returns a mark as a comment.
func formatMark(m external.Mark) string { return markPrefix + m.Owner + " (" + m.ID + markSuffix }

// parseMark reads a mark from a comment; nil if it is another comment.
func parseMark(comment string) *external.Mark {
	body, ours := strings.CutPrefix(comment, markPrefix)
	if !ours || !strings.HasSuffix(body, markSuffix) {
		return nil
	}
	owner, id, found := strings.Cut(strings.TrimSuffix(body, markSuffix), " (")
	if !found || owner == "" || id == "" || strings.ContainsAny(id, " ()") {
		return nil
	}
	return &external.Mark{ID: id, Owner: owner}
}
