package diag

import "strings"

const ellipsis = "…"

// Cut returns a text of at most so many bytes, at least those of an ellipsis: a
// longer one is cut, between characters, and then ends with one. The result is
// valid UTF-8.
func Cut(text string, bytes int) string {
	if len(text) <= bytes {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:max(bytes-len(ellipsis), 0)], "") + ellipsis
}

// Shorten returns a text of at most so many bytes, at least those of an ellipsis: of a
// longer one the middle is left out. A message begins with what it is about and ends with
// the reason.
func Shorten(text string, bytes int) string {
	if len(text) <= bytes {
		return strings.ToValidUTF8(text, "")
	}
	room := max(bytes-len(ellipsis), 0)
	head := strings.ToValidUTF8(text[:room/2], "")
	return head + ellipsis + strings.ToValidUTF8(text[len(text)-(room-room/2):], "")
}
