package diag

import "strings"

const ellipsis = "…"

// Truncate returns at most the given number of bytes of a text, but at least an ellipsis. A
// longer text is cut between characters and ends with an ellipsis. The result is valid
// UTF-8.
func Truncate(text string, bytes int) string {
	if len(text) <= bytes {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:max(bytes-len(ellipsis), 0)], "") + ellipsis
}

// TruncateMiddle returns at most the given number of bytes of a text, at least an ellipsis.
// It replaces the middle of a longer text: a message begins with its subject and ends with
// the reason. The result is valid UTF-8.
func TruncateMiddle(text string, bytes int) string {
	if len(text) <= bytes {
		return strings.ToValidUTF8(text, "")
	}
	room := max(bytes-len(ellipsis), 0)
	head := strings.ToValidUTF8(text[:room/2], "")
	return head + ellipsis + strings.ToValidUTF8(text[len(text)-(room-room/2):], "")
}
