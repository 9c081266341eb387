package plan

import "time"

// maxBackoff is the longest time between two attempts.
const maxBackoff = time.Minute

// Retry decides what happens after an attempt has failed, with the number of failures including it: another one after that time, or
// none. An attempt that fails for the operation itself fails again.
func Retry(failures, limit int64, permanent bool) (after time.Duration, again bool) {
	if permanent || failures >= limit {
		return 0, false
	}
	after = time.Second
	for n := int64(1); n < failures && after < maxBackoff; n++ {
		after *= 2
	}
	return min(after, maxBackoff), true
}
