package operation

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What an external API says comes from outside: it may be as long as it likes and hold
// what nobody should print. All that is told of it goes through here.
const (
	// mostSaid is how long a message is at most: what an event's note can hold.
	mostSaid = 1024
	// cutAt is where the end of a longer one follows: that is where it says what to do.
	cutAt = 600
	// longestWait is how long the external API can ask to be left alone: it may be
	// mistaken.
	longestWait = 10 * time.Minute
)

// bounded is a step whose words and waits are fit to be passed on.
func (s Step) bounded() Step {
	s.Synced.Message, s.Ready.Message, s.Event.Message = readable(s.Synced.Message), readable(s.Ready.Message), readable(s.Event.Message)
	if s.Binding != nil && s.Binding.Unresolved != nil {
		s.Binding.Unresolved.Message = readable(s.Binding.Unresolved.Message)
	}
	if s.Err != nil && s.Err.Error() != readable(s.Err.Error()) {
		s.Err = worded{s.Err}
	}
	if s.Err != nil {
		s.After = min(max(s.After, 0), longestWait)
	}
	return s
}

// readable is a text without what isn't for people's eyes, and not too long of it.
func readable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r // what is no character at all is told as one that isn't known
	}, text)
	if len(text) <= mostSaid {
		return text
	}
	const gap = " … "
	head, tail := cutAt, len(text)-(mostSaid-cutAt-len(gap))
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}

// worded is an error whose text is readable.
type worded struct{ error }

func (w worded) Error() string { return readable(w.error.Error()) }
func (w worded) Unwrap() error { return w.error }
