package operation

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Messages of an external API are not trusted: they may have any length and contain control
// characters. All of them pass through sanitize.
const (
	// maxMessage bounds a message in bytes, to what an event's note can hold.
	maxMessage = 1024
	// headLength is how much of a longer message's beginning is kept. The rest is its end,
	// which usually has the remedy.
	headLength = 600
	// maxRetryAfter bounds the delay that the external API asks for, which may be wrong.
	maxRetryAfter = 10 * time.Minute
)

func (s Step) bounded() Step {
	s.Synced.Message, s.Ready.Message, s.Event.Message = sanitize(s.Synced.Message), sanitize(s.Ready.Message), sanitize(s.Event.Message)
	if s.Binding != nil && s.Binding.Unresolved != nil {
		s.Binding.Unresolved.Message = sanitize(s.Binding.Unresolved.Message)
	}
	if s.Err != nil && s.Err.Error() != sanitize(s.Err.Error()) {
		s.Err = sanitizedError{s.Err}
	}
	if s.Err != nil {
		s.After = min(max(s.After, 0), maxRetryAfter)
	}
	return s
}

// The result has no control characters and at most maxMessage bytes.
func sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r // invalid UTF-8 becomes the replacement character
	}, text)
	if len(text) <= maxMessage {
		return text
	}
	const gap = " … "
	head, tail := headLength, len(text)-(maxMessage-headLength-len(gap))
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}

type sanitizedError struct{ error }

func (w sanitizedError) Error() string { return sanitize(w.error.Error()) }
func (w sanitizedError) Unwrap() error { return w.error }
