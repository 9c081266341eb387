package diag

// Ellipsis replaces what is cut from a text.
const Ellipsis = "…"

// Truncate returns at most the given number of bytes of a text, but at least an ellipsis. A
// longer text is cut between characters and ends with an ellipsis. The result is Printable.
func Truncate(text string, bytes int) string { return truncate(text, bytes, false) }

// TruncateLines is Truncate for a text of several lines, which stay lines.
func TruncateLines(text string, bytes int) string { return truncate(text, bytes, true) }

func truncate(text string, bytes int, lines bool) string {
	start := printable(first(text, bytes), lines)
	if len(text) <= bytes && len(start) <= bytes {
		return start
	}
	return first(start, bytes-len(Ellipsis)) + Ellipsis
}

// TruncateMiddle returns at most the given number of bytes of a text, at least an ellipsis.
// It replaces the middle of a longer text: a message begins with its subject and ends with
// the reason. The result is Printable.
func TruncateMiddle(text string, bytes int) string {
	start, end := Printable(first(text, bytes)), Printable(last(text, bytes))
	if len(text) <= bytes && len(start) <= bytes {
		return start
	}
	room := max(bytes-len(Ellipsis), 0)
	return first(start, room/2) + Ellipsis + last(end, room-room/2)
}

// A character that is cut is left out.
func first(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	end := max(bytes, 0)
	for end > 0 && isContinuation(text[end]) {
		end--
	}
	return text[:end]
}

// A character that is cut is left out.
func last(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	begin := len(text) - max(bytes, 0)
	for begin < len(text) && isContinuation(text[begin]) {
		begin++
	}
	return text[begin:]
}

// At most three such bytes follow each other in valid UTF-8.
func isContinuation(b byte) bool { return b&0xc0 == 0x80 }
