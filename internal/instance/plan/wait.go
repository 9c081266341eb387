package plan

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Waits are retried with exponential backoff from a second to an hour. The retry is a safety
// net: the watches deliver what a node waits for at once.
const (
	initialWaitRetry = time.Second
	maxWaitRetry     = time.Hour
)

// Attempts is how often a wait has been tried by now: once when it was found, and once for each backoff that has
// passed. It depends on time alone, so it survives restarts and is the same for every caller.
func (w Wait) Attempts(now time.Time) int {
	n, _ := backoff(now.Sub(w.Since))
	return n
}

// Next is after how long to try again.
func (w Wait) Next(now time.Time) time.Duration {
	_, next := backoff(now.Sub(w.Since))
	if w.Timeout > 0 {
		if left := w.Timeout - now.Sub(w.Since); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// attempt is the number of the attempt after so long, and next how long it is until the next.
func backoff(elapsed time.Duration) (attempt int, next time.Duration) {
	attempt, due, step := 1, time.Duration(0), initialWaitRetry
	for step < maxWaitRetry {
		if due+step > elapsed {
			return attempt, due + step - elapsed
		}
		due += step
		step = min(2*step, maxWaitRetry)
		attempt++
	}
	past := (elapsed - due) / maxWaitRetry
	if past > math.MaxInt32 {
		past = math.MaxInt32
	}
	return attempt + int(past), maxWaitRetry - (elapsed-due)%maxWaitRetry
}

// TimedOut reports whether the author's timeout or number of retries is exceeded.
func (w Wait) TimedOut(now time.Time) bool {
	if w.Timeout > 0 && now.Sub(w.Since) >= w.Timeout {
		return true
	}
	return w.Retries > 0 && w.Attempts(now) > w.Retries
}

// String is the wait as conditions report it: "cluster waits for unresolved vpc.status.id".
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

// Describe is String with the start of the wait and the number of attempts.
func (w Wait) Describe(now time.Time) string {
	attempts := w.Attempts(now)
	noun := "attempts"
	if attempts == 1 {
		noun = "attempt"
	}
	return fmt.Sprintf("%s, since %s, %d %s", w, w.Since.UTC().Format(time.RFC3339), attempts, noun)
}
