package doctor

import (
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// reconciled finds definitions and instances that were changed, or created, and that nobody has reconciled since. Those that
// are being deleted, or whose definition is gone, are found by other checks.
func (e *examination) reconciled() {
	for _, o := range slices.Concat(e.Definitions, e.Instances) {
		observed, changed := observedGeneration(o), lastChange(o)
		if o.GetDeletionTimestamp() != nil || observed >= o.GetGeneration() || e.Now.Sub(changed) < e.StuckAfter || e.isOrphan(o) {
			continue
		}
		what, status := "it", ""
		if observed > 0 {
			what, status = fmt.Sprintf("generation %d", o.GetGeneration()), fmt.Sprintf("; its status is of generation %d", observed)
		}
		one := objectOf(o)
		remedy := "espalier why " + arguments(one) + "; see also whether the controllers run"
		e.add(Warning, "reconciled", &one, remedy, "%s has not been reconciled since %s%s", what, changed.UTC().Format(time.RFC3339), status)
	}
	e.fine("reconciled", "no change waits longer than %s", e.StuckAfter)
}

// observedGeneration is the newest generation that a status, or one of its conditions, is of; 0 if it says none.
func observedGeneration(o *unstructured.Unstructured) int64 {
	observed := health.Observed(o)
	for _, c := range condition.Read(o) {
		observed = max(observed, c.ObservedGeneration)
	}
	return observed
}

// lastChange is when an object was written last, apart from its status. That may be later than the change of its spec.
func lastChange(o *unstructured.Unstructured) time.Time {
	last := o.GetCreationTimestamp().Time
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

// isOrphan says whether an object's kind has no definition any more.
func (e *examination) isOrphan(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(e.CRDs, func(c *apiextensionsv1.CustomResourceDefinition) bool {
		owner, owned := crd.Owner(c)
		return owned && crd.GroupKind(c) == o.GroupVersionKind().GroupKind() && !e.hasDefinition(owner)
	})
}
