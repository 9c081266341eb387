package observe

import (
	"fmt"
	"time"
)

// Age is a duration in at most two units, as kubectl shows it.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return twoUnits(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 8*time.Hour:
		return twoUnits(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

func twoUnits(n time.Duration, unit string, rest time.Duration, restUnit string) string {
	if rest == 0 {
		return fmt.Sprintf("%d%s", n, unit)
	}
	return fmt.Sprintf("%d%s%d%s", n, unit, rest, restUnit)
}
