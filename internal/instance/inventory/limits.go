package inventory

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Limits are how long a deletion may take; zero for as long as it takes.
type Limits struct {
	// Timeout is when it is reported as stalled, ForceAfter how long something may
	// block it before it is let go of.
	Timeout, ForceAfter time.Duration
}

// Defaults are what a definition says of the deletion of its instances. They are
// written on each, so that it can be taken apart without its definition.
type Defaults struct {
	Limits
	// OnDelete holds the nodes whose objects aren't to be deleted.
	OnDelete map[string]v1alpha1.DeletionPolicy
}

// text is what an instance carries of it: "timeout=10m0s,Retain=a;b".
func (d Defaults) text() string {
	var parts []string
	if d.Timeout > 0 {
		parts = append(parts, timeoutKey+"="+d.Timeout.String())
	}
	if d.ForceAfter > 0 {
		parts = append(parts, forceAfterKey+"="+d.ForceAfter.String())
	}
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionOrphan, v1alpha1.DeletionRetain} {
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(d.OnDelete)) {
			if d.OnDelete[node] == policy {
				nodes = append(nodes, node)
			}
		}
		if len(nodes) > 0 {
			parts = append(parts, string(policy)+"="+strings.Join(nodes, ";"))
		}
	}
	return strings.Join(parts, ",")
}

const (
	timeoutKey    = "timeout"
	forceAfterKey = "forceAfter"
)

// DefaultsOf reads what an instance's definition said when it last looked at it.
// What can't be read somebody has made of it, and counts as not there.
func DefaultsOf(instance *unstructured.Unstructured) Defaults {
	d := Defaults{OnDelete: map[string]v1alpha1.DeletionPolicy{}}
	for _, part := range fields(instance.GetAnnotations()[v1alpha1.DeletionDefaultsAnnotation]) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case timeoutKey:
			d.Timeout, _ = time.ParseDuration(value)
		case forceAfterKey:
			d.ForceAfter, _ = time.ParseDuration(value)
		case string(v1alpha1.DeletionOrphan), string(v1alpha1.DeletionRetain):
			for node := range strings.SplitSeq(value, ";") {
				d.OnDelete[node] = v1alpha1.DeletionPolicy(key)
			}
		}
	}
	return d
}

// LimitsOf reads the limits of an instance's deletion: its own annotations, or
// else its definition's. An annotation that can't be read is told, and counts as
// not there.
func LimitsOf(instance *unstructured.Unstructured) (Limits, diag.List) {
	limits := DefaultsOf(instance).Limits
	var problems diag.List
	own := func(key string, limit *time.Duration) {
		text, ok := instance.GetAnnotations()[key]
		if !ok {
			return
		}
		d, err := time.ParseDuration(strings.TrimSpace(text))
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
