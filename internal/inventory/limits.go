package inventory

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Limits are how long a deletion may take; zero for as long as it takes.
type Limits struct {
	// Timeout is when it is reported as stalled, ForceAfter when it lets go of what
	// blocks it.
	Timeout, ForceAfter time.Duration
}

// text is what an instance carries of its definition's limits.
func (l Limits) text() string {
	var parts []string
	if l.Timeout > 0 {
		parts = append(parts, timeoutKey+l.Timeout.String())
	}
	if l.ForceAfter > 0 {
		parts = append(parts, forceAfterKey+l.ForceAfter.String())
	}
	return strings.Join(parts, ",")
}

const (
	timeoutKey    = "timeout="
	forceAfterKey = "forceAfter="
)

// LimitsOf reads the limits of an instance's deletion: its own annotations, or
// else what its definition said when it last looked at it. An annotation that
// can't be read is told, and counts as not there.
func LimitsOf(instance *unstructured.Unstructured) (Limits, diag.List) {
	annotations := instance.GetAnnotations()
	var limits Limits
	for _, part := range fields(annotations[v1alpha1.DeletionDefaultsAnnotation]) {
		if text, ok := strings.CutPrefix(part, timeoutKey); ok {
			limits.Timeout, _ = time.ParseDuration(text)
		}
		if text, ok := strings.CutPrefix(part, forceAfterKey); ok {
			limits.ForceAfter, _ = time.ParseDuration(text)
		}
	}
	var problems diag.List
	own := func(key string, limit *time.Duration) {
		text, ok := annotations[key]
		if !ok {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			problems.Addf("metadata.annotations", "%s is %q, which is no duration such as 10m", key, diag.Cut(text, 40))
			return
		}
		*limit = d
	}
	own(v1alpha1.DeletionTimeoutAnnotation, &limits.Timeout)
	own(v1alpha1.ForceAfterAnnotation, &limits.ForceAfter)
	return limits, problems
}
