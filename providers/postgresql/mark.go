package postgresql

import (
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// A mark is a comment in one line: "managed by espalier: <owner> (<id>)".
const (
	markBegins = "managed by espalier: "
	markEnds   = ")"
)

// commentOf is a mark as a comment.
func commentOf(m external.Mark) string { return markBegins + m.Owner + " (" + m.ID + markEnds }

// markIn reads a mark from a comment; nil if it is somebody's own words.
func markIn(comment string) *external.Mark {
	body, ours := strings.CutPrefix(comment, markBegins)
	if !ours || !strings.HasSuffix(body, markEnds) {
		return nil
	}
	owner, id, found := strings.Cut(strings.TrimSuffix(body, markEnds), " (")
	if !found || owner == "" || id == "" || strings.ContainsAny(id, " ()") {
		return nil
	}
	return &external.Mark{ID: id, Owner: owner}
}
