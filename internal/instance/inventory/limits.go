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

// Limits are the time limits of a deletion; zero for none.
type Limits struct {
	// Timeout is after how long the deletion is reported as stalled, ForceAfter after how long a
	// blocker is left behind.
	Timeout, ForceAfter time.Duration
}

// Defaults are a definition's settings for the deletion of its instances. They are recorded on each instance, so it can
// be deleted without its definition.
type Defaults struct {
	Limits
	// OnDelete holds the policies of nodes, if these keep their objects.
	OnDelete map[string]v1alpha1.DeletionPolicy
	// Overrides says which annotations of an instance apply.
	Overrides Overrides
}

// For example: "timeout=10m0s,Retain=a;b,overrides=forceDelete:Deny".
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
	if overrides := d.Overrides.text(); overrides != "" {
		parts = append(parts, overridesKey+"="+overrides)
	}
	return strings.Join(parts, ",")
}

const (
	timeoutKey    = "timeout"
	forceAfterKey = "forceAfter"
	overridesKey  = "overrides"
)

// WithoutDefinition returns recorded settings as far as they apply while the definition isn't known: a user who can
// write the instance may have changed them.
func (d Defaults) WithoutDefinition() Defaults {
	d.Overrides = d.Overrides.withoutDefinition()
	return d
}

// DefaultsOf reads the settings of the definition as recorded on an instance. Malformed parts, which other writers have
// changed, are ignored. They count only where the definition isn't known: other clients may have changed them.
func DefaultsOf(instance *unstructured.Unstructured) Defaults {
	d := Defaults{OnDelete: map[string]v1alpha1.DeletionPolicy{}}
	for _, part := range splitList(instance.GetAnnotations()[v1alpha1.DeletionDefaultsAnnotation]) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case timeoutKey:
			d.Timeout, _ = time.ParseDuration(value)
		case forceAfterKey:
			d.ForceAfter, _ = time.ParseDuration(value)
		case overridesKey:
			d.Overrides = readOverrides(value)
		case string(v1alpha1.DeletionOrphan), string(v1alpha1.DeletionRetain):
			for node := range strings.SplitSeq(value, ";") {
				d.OnDelete[node] = v1alpha1.DeletionPolicy(key)
			}
		}
	}
	return d
}

// LimitsOf returns the limits of an instance's deletion: from its own annotations, as far as they
// are allowed, or else its definition's. An invalid annotation is a problem and ignored.
func LimitsOf(instance *unstructured.Unstructured, defaults Defaults) (Limits, diag.List) {
	limits := defaults.Limits
	var problems diag.List
	read := func(key string, limit *time.Duration) {
		text, ok := instance.GetAnnotations()[key]
		if !ok {
			return
		}
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d <= 0 {
			problems.Addf("metadata.annotations", "%s: invalid duration %q; use a positive duration such as 10m", key, diag.Truncate(text, 40))
			return
		}
		*limit = d
	}
	read(v1alpha1.DeletionTimeoutAnnotation, &limits.Timeout)
	if defaults.Overrides.AllowsForceDelete() {
		read(v1alpha1.ForceAfterAnnotation, &limits.ForceAfter)
	}
	return limits, problems
}
