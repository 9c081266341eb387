package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// correct takes back fields that somebody else has taken over, and tells who, in
// an event. The caches keep our own managed fields only, so that the name costs a
// request; drift is rare. What the server doesn't let us own, because the schema
// doesn't know it, turns out here to have been nobody's: nothing has changed.
//
// While a field is contested, it is told that it is, and not each correction.
func (r *Reconciler) correct(ctx context.Context, v *visit, step plan.Step) result {
	if len(step.Contested) > 0 {
		return r.update(ctx, v, step, step.Current)
	}
	live, err := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("can't tell who changed a field", "object", nameOf(step), "error", err.Error())
		live = step.Current
	}
	res := r.update(ctx, v, step, step.Current)
	if res.answer == nil || res.answer.GetResourceVersion() == live.GetResourceVersion() {
		return res
	}
	names := make([]string, len(step.Lost))
	for i, path := range step.Lost {
		names[i] = string(path)
	}
	r.Events.Event(v.instance, telemetry.Warning, "DriftCorrected",
		fmt.Sprintf("%s of %s was changed by %s and is set back", strings.Join(names, ", "), object.KeyOf(live), takersOf(live, step.Object)))
	return res
}

// takersOf names the managers other than ours that own something which we
// want on the object.
func takersOf(live, desired *unstructured.Unstructured) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == v1alpha1.ChildManager || entry.FieldsV1 == nil || slices.Contains(names, entry.Manager) {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && overlaps(desired.Object, fields) {
			names = append(names, entry.Manager)
		}
	}
	if len(names) == 0 {
		return somebody
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// overlaps says whether a set of fields has one that the value has too.
func overlaps(value any, fields map[string]any) bool {
	if len(fields) == 0 {
		return true
	}
	m, ok := value.(map[string]any)
	if !ok {
		return true
	}
	for key, v := range m {
		if below, has := fields["f:"+key].(map[string]any); has && overlaps(v, below) {
			return true
		}
	}
	return false
}
