package plan

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Waits are retried by a back-off that starts at a second and doubles up to an
// hour. The retry is a safety net below the watches, which deliver what a node
// waits for the moment it appears.
const (
	firstRetry   = time.Second
	slowestRetry = time.Hour
)

// Attempts is how often a wait has been tried by now: once when it was found,
// and once for each back-off that has passed. It is a function of time alone,
// so that it survives restarts and is the same for everyone who asks.
func (w Wait) Attempts(now time.Time) int {
	n, _ := backoff(now.Sub(w.Since))
	return n
}

// Next is when to try again.
func (w Wait) Next(now time.Time) time.Duration {
	_, next := backoff(now.Sub(w.Since))
	if w.Timeout > 0 {
		if left := w.Timeout - now.Sub(w.Since); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// backoff tells which attempt it is after so long, and how long until the next.
func backoff(elapsed time.Duration) (attempt int, next time.Duration) {
	attempt, due, step := 1, time.Duration(0), firstRetry
	for step < slowestRetry {
		if due+step > elapsed {
			return attempt, due + step - elapsed
		}
		due += step
		step = min(2*step, slowestRetry)
		attempt++
	}
	past := (elapsed - due) / slowestRetry
	if past > math.MaxInt32 {
		past = math.MaxInt32
	}
	return attempt + int(past), slowestRetry - (elapsed-due)%slowestRetry
}

// TimedOut says whether the author's limit has passed.
func (w Wait) TimedOut(now time.Time) bool {
	if w.Timeout > 0 && now.Sub(w.Since) >= w.Timeout {
		return true
	}
	return w.Retries > 0 && w.Attempts(now) > w.Retries
}

// String is the wait as conditions tell it: "cluster waits for unresolved vpc.status.id".
func (w Wait) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s waits for ", w.Node)
	if w.Reason == WaitingForField {
		b.WriteString("unresolved ") // the word by which users of the dialect look for it
	}
	b.WriteString(w.On)
	if w.Detail != "" {
		fmt.Fprintf(&b, " (%s)", w.Detail)
	}
	return b.String()
}

// Describe adds since when and how often tried.
func (w Wait) Describe(now time.Time) string {
	attempts := w.Attempts(now)
	noun := "attempts"
	if attempts == 1 {
		noun = "attempt"
	}
	return fmt.Sprintf("%s, since %s, %d %s", w, w.Since.UTC().Format(time.RFC3339), attempts, noun)
}
