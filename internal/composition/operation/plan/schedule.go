package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/espalier-dev/espalier/api/ops/v1alpha1"
)

// ParseSchedule reads a schedule in cron's format, with the additions of robfig/cron: CRON_TZ=Europe/Berlin 0 6 * * *, @daily, @every 90m.
func ParseSchedule(text string) (cron.Schedule, error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if !strings.Contains(text, " ") { // the parser panics
			return nil, fmt.Errorf("%.80q has a time zone and no schedule", text)
		}
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("%.80q is no schedule: %w", text, err)
	}
	return s, nil
}

// Cron is what is known of a CronOperation.
type Cron struct {
	Schedule cron.Schedule
	Now      time.Time
	// Last is the last time that an operation was made for, or else when the CronOperation was created.
	Last time.Time
	// Deadline is how late an operation may begin; nil for no limit.
	Deadline   *time.Duration
	Policy     v1alpha1.ConcurrencyPolicy
	Operations []Operation
}

// CronStep is what is to be done for a CronOperation.
type CronStep struct {
	// Slot is the time that an operation is made for; zero for none now.
	Slot time.Time
	// Replaced are running operations, which are deleted first.
	Replaced []string
	// After is how long until the next time of the schedule; 0 if there is none.
	After time.Duration
	// Waits is why an operation that is due is not made; empty otherwise.
	Waits string
}

// Next decides which operation is due. Of several times that have passed only the last counts. Under Forbid it waits for the running
// operation, for as long as the deadline allows.
func (c Cron) Next() (s CronStep) {
	now, last := c.Now.UTC(), c.Last.UTC() // a schedule without a time zone uses the zone of these times
	slot := latest(c.Schedule, last, now)
	if next := following(c.Schedule, last, now); !next.IsZero() {
		s.After = next.Sub(now)
	}
	if slot.IsZero() || c.Deadline != nil && now.Sub(slot) > *c.Deadline {
		return s
	}
	running := Running(c.Operations)
	switch {
	case len(running) == 0 || c.Policy == v1alpha1.Allow || c.Policy == "":
		s.Slot = slot
	case c.Policy == v1alpha1.Replace:
		s.Slot, s.Replaced = slot, running
	default:
		s.Waits = "Operation " + running[0] + " still runs"
	}
	return s
}

// following returns the first time of a schedule after now; zero if there is none.
func following(s cron.Schedule, last, now time.Time) time.Time {
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		return last.Add((now.Sub(last)/every.Delay + 1) * every.Delay)
	}
	return s.Next(now)
}

// latest returns the latest time of a schedule after one time and not after another; zero if there is none. It searches backwards, so that
// the times of a long gap are not enumerated.
func latest(s cron.Schedule, after, until time.Time) (slot time.Time) {
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		if n := until.Sub(after) / every.Delay; n > 0 {
			return after.Add(n * every.Delay)
		}
		return slot
	}
	for window := time.Minute; ; window *= 2 {
		from := until.Add(-window)
		if !from.After(after) {
			from = after
		}
		for next := s.Next(from); !next.IsZero() && !next.After(until); next = s.Next(next) {
			slot = next
		}
		if !slot.IsZero() || from.Equal(after) || window > maxGap {
			return slot
		}
	}
}

// maxGap is how far back the last time of a schedule is searched for: cron's rarest times are 8 years apart.
const maxGap = 10 * 366 * 24 * time.Hour

// CronName is the name of the operation for a time.
func CronName(parent string, slot time.Time) string {
	return parent + "-" + strconv.FormatInt(slot.Unix(), 10)
}

// CronSlot is the time that an operation of that name is for; false for other names.
func CronSlot(parent, name string) (slot time.Time, ok bool) {
	digits, ok := strings.CutPrefix(name, parent+"-")
	n, err := strconv.ParseInt(digits, 10, 64)
	return time.Unix(n, 0), ok && err == nil
}
