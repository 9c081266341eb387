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

func formatMark(m external.Mark) string { return markPrefix + m.Owner + " (" + m.ID + markSuffix }

// It is nil for another comment.
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
