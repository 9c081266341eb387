package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
)

// History is what earlier reconciles of an instance learned and observing it doesn't show.
// Correctness doesn't depend on it: losing it costs a request or two.
type History struct {
	Ungranted   Ungranted
	Contests    Contests
	Refusals    Refusals
	Inspections Inspections
	Intact      Intact
}

// Contests are the fields of ours that another manager has taken over recently, by the UID of the child. A thousand
// children may drift at once: what one of them adds copies nothing of its siblings.
type Contests map[types.UID]map[object.Path]Contest

// Contest records recent writes to one field.
type Contest struct {
	// Corrections are the last times at which the field was taken back.
	Corrections []time.Time
	// Ceded says that the field was left to the other manager for a while. LastWrite is when
	// that manager's last write was observed, and ValueDigest the digest of what it wrote.
	Ceded       bool
	LastWrite   time.Time
	ValueDigest string
}

// Two managers that fight over a field must not cause a hot loop. A field that was taken back contestLosses times
// within contestWindow is contested: from then on it is taken back only after the other manager has not written it for
// contestQuiet, and counts as contested until it has stayed ours for as long.
//
// A manager that makes a field contested writes more often than once in contestWindow / contestLosses. Both periods
// together are as long, so the status doesn't change between the writes of a manager that continues.
const (
	contestWindow = time.Minute
	contestLosses = 3
	contestQuiet  = contestWindow / contestLosses / 2
)

// WithCorrection adds a correction of the fields.
func (l Contests) WithCorrection(child types.UID, fields []object.Path, now time.Time) Contests {
	for _, field := range fields {
		c := l[child][field]
		times := append(slices.Clone(c.Corrections), now)
		c.Corrections, c.ValueDigest = times[max(0, len(times)-contestLosses):], ""
		l = l.with(child, field, c)
	}
	return l
}

// WithObservedWrites adds the writes that a step has observed, if the step leaves contested fields to
// another manager for now.
func (l Contests) WithObservedWrites(step Step, now time.Time) Contests {
	if step.Action != Defer || len(step.ContestedFields) == 0 || len(step.LostFields) == 0 {
		return l
	}
	child := step.Current.GetUID()
	for _, field := range step.ContestedFields {
		c := l[child][field]
		c.LastWrite, c.ValueDigest = c.observeWrite(step.Current, field, now)
		c.Ceded = true
		l = l.with(child, field, c)
	}
	return l
}

func (l Contests) with(child types.UID, field object.Path, c Contest) Contests {
	if l == nil {
		l = Contests{}
	}
	if l[child] == nil {
		l[child] = map[object.Path]Contest{}
	}
	l[child][field] = c
	return l
}

// DropOld drops contests that are too old to count.
func (l Contests) DropOld(now time.Time) {
	for child, fields := range l {
		maps.DeleteFunc(fields, func(_ object.Path, c Contest) bool { return now.Sub(c.lastActivity()) >= contestWindow })
		if len(fields) == 0 {
			delete(l, child)
		}
	}
}

func (c Contest) lastActivity() time.Time {
	last := c.LastWrite
	if n := len(c.Corrections); n > 0 && c.Corrections[n-1].After(last) {
		last = c.Corrections[n-1]
	}
	return last
}

// The other manager owns the field now. The digest is of the value.
func (c Contest) observeWrite(o *unstructured.Unstructured, field object.Path, now time.Time) (at time.Time, digest string) {
	digest = FieldsDigest(o, []object.Path{field})
	if c.ValueDigest != digest {
		return now, digest
	}
	return c.LastWrite, digest
}

// Such a field was lost so often that it is left alone for a while.
func (c Contest) isContested(now time.Time) bool {
	if c.Ceded && now.Sub(c.lastActivity()) < contestWindow {
		return true
	}
	recent := slices.DeleteFunc(slices.Clone(c.Corrections), func(t time.Time) bool { return now.Sub(t) >= contestWindow })
	return len(recent) >= contestLosses
}

// deferContested turns a correction into a wait while another manager keeps writing one of its
// fields.
func deferContested(step *Step, losses Contests, now time.Time) {
	var until time.Time
	for _, field := range step.LostFields {
		c := losses[step.Current.GetUID()][field]
		if !c.isContested(now) {
			continue
		}
		step.ContestedFields = append(step.ContestedFields, field)
		if at, _ := c.observeWrite(step.Current, field, now); at.Add(contestQuiet).After(until) {
			until = at.Add(contestQuiet)
		}
	}
	if now.Before(until) {
		step.deferForContest(until.Sub(now))
	}
}

// deferRecentlyContested makes the step wait while fields that were contested have not stayed
// ours for contestQuiet yet. It reports whether there are any.
func deferRecentlyContested(step *Step, losses Contests, now time.Time) bool {
	var until time.Time
	for field, c := range losses[step.Current.GetUID()] {
		if n := len(c.Corrections); c.Ceded && n > 0 && c.isContested(now) {
			step.ContestedFields = append(step.ContestedFields, field)
			if end := c.Corrections[n-1].Add(contestQuiet); end.After(until) {
				until = end
			}
		}
	}
	slices.Sort(step.ContestedFields)
	if !now.Before(until) {
		step.ContestedFields = nil
		return false
	}
	step.deferForContest(until.Sub(now))
	return true
}

func (s *Step) deferForContest(retry time.Duration) {
	s.Action, s.Retry = Defer, retry
	s.Problem = Problem{
		Reason: DriftContested,
		Message: fmt.Sprintf("%s%s of %s; it is corrected once that manager has stopped for %s",
			contestedPrefix, s.DescribeFields(s.ContestedFields[:1]), object.KeyOf(s.Current), contestQuiet),
	}
}

const contestedPrefix = "another manager keeps overwriting "

// ContestedField reads the contested field from the message of a problem DriftContested of an object. It is empty if
// the message omits it, as it may come from a Secret. A status has only the message, also an earlier release's.
func ContestedField(message string, o *unstructured.Unstructured) object.Path {
	_, text, _ := strings.Cut(message, contestedPrefix)
	text, _, found := strings.Cut(text, " of "+object.KeyOf(o).String())
	if field := object.Path(text); found && text != redactedFields && field.Segments() != nil {
		return field
	}
	return ""
}
