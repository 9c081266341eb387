package condition

import (
	"fmt"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Reconciling and Stalled are the types of the conditions that show kstatus, and with it kubectl's companions, Helm and
// Flux, whether an object is in progress or has failed. Each exists only while it is true, and never both.
const (
	TypeReconciling = "Reconciling"
	TypeStalled     = "Stalled"
)

// Progress is what an object that is not ready needs: time, if it is Reconciling, or an action of a user, if it is
// Stalled. The zero Progress is of an object that needs nothing.
type Progress struct {
	kind            string
	reason, message string
}

// Reconciling is the progress of an object while its controller works towards its spec, or waits for something that
// comes without an action of a user.
func Reconciling(reason, message string) Progress { return Progress{TypeReconciling, reason, message} }

// Stalled is the progress of an object that stays as it is until a user acts.
func Stalled(reason, message string) Progress { return Progress{TypeStalled, reason, message} }

// ProgressOf is the progress of an object with the given root condition: none if that is True; otherwise with its
// reason and message, so no status is written for the progress alone. It has the first one of a list of problems.
func ProgressOf(root v1alpha1.Condition, stalled bool) Progress {
	message, rest, isList := strings.Cut(root.Message, "\n")
	if isList {
		message = fmt.Sprintf("%s (and %d more: see condition %s)", message, strings.Count(rest, "\n")+1, root.Type)
	}
	switch {
	case root.Status == True:
		return Progress{}
	case stalled && root.Status == False:
		return Stalled(root.Reason, message)
	}
	return Reconciling(root.Reason, message)
}

// IsStalled reports whether the object needs an action of a user.
func (p Progress) IsStalled() bool { return p.kind == TypeStalled }

// MarkProgress returns a copy of the set with the condition of a progress, and without the other.
func (s Set) MarkProgress(p Progress, generation int64, now time.Time) Set {
	for _, kind := range []string{TypeReconciling, TypeStalled} {
		if kind != p.kind {
			s = s.Remove(kind)
		}
	}
	if p.kind == "" {
		return s
	}
	return s.Mark(v1alpha1.Condition{Type: p.kind, Status: True, Reason: p.reason, Message: p.message, ObservedGeneration: generation}, now)
}
