package instance

import (
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// transferManagedFields gives what managers of a former engine own of an object to ours, if there is anything, so the
// next apply removes what isn't wanted any more. Otherwise it makes no request.
func (r *Reconciler) transferManagedFields(ctx context.Context, s *subject, o *unstructured.Unstructured,
	from managedfields.Selector) (*unstructured.Unstructured, error) {
	if !managedfields.NeedsTransfer(o, from) {
		return o, nil
	}
	transferred, err := r.write(s, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.ReplaceManagedFields(ctx, o, v1alpha1.ChildManager, from.Transfer)
	})
	if err != nil {
		return nil, err
	}
	logr.FromContextOrDiscard(ctx).Info("transferred managed fields of a former engine", "object", object.KeyOf(o))
	return transferred, nil
}

// unknownManager stands for a manager that the managed fields don't name.
const unknownManager = "an unknown manager"

// It names the managers other than ours that own one of the fields, which are wanted on an object.
func managersOfFields(live, wanted *unstructured.Unstructured, fields []object.Path) string {
	return joined(ownership.Managers(live, func(e ownership.Entry) bool {
		return e.Manager != v1alpha1.ChildManager && ownership.OwnsAny(wanted.Object, fields, managedfields.Stored(live, e.Fields()))
	}))
}

// externalFields lists the external fields of a step that another manager has set on an existing object.
func externalFields(live *unstructured.Unstructured, step plan.Step) []object.Path {
	if len(step.Drift.External) == 0 {
		return nil
	}
	return slices.DeleteFunc(plan.LostFields(step.Object, live, v1alpha1.ChildManager), func(field object.Path) bool {
		return !step.Drift.IsExternal(field) || managersOfFields(live, step.Object, []object.Path{field}) == unknownManager
	})
}

// It names the managers other than ours that own something of what we want on an object.
func othersSharingAnyField(live, wanted *unstructured.Unstructured) string {
	return joined(ownership.Managers(live, func(e ownership.Entry) bool {
		return e.Manager != v1alpha1.ChildManager && ownership.Overlaps(wanted.Object, managedfields.Stored(live, e.Fields()))
	}))
}

// It names the managers other than ours that own a field which we want with another value; if there are none, the ones
// that own something of what we want.
func othersWithDifferent(live, wanted *unstructured.Unstructured) string {
	names := ownership.Managers(live, func(e ownership.Entry) bool {
		return e.Manager != v1alpha1.ChildManager && e.Subresource != "status" &&
			ownership.Differs(wanted.Object, live.Object, managedfields.Stored(live, e.Fields()))
	})
	if len(names) == 0 {
		return othersSharingAnyField(live, wanted)
	}
	return joined(names)
}

func joined(names []string) string {
	if len(names) == 0 {
		return unknownManager
	}
	return strings.Join(names, ", ")
}

// maxWriters bounds how many managers of an object a message names.
const maxWriters = 3

// The managers are sorted; managers of the status alone are left out.
func writersOf(live *unstructured.Unstructured) string {
	names := ownership.Managers(live, func(e ownership.Entry) bool { return e.Subresource != "status" })
	more := ""
	if len(names) > maxWriters {
		names, more = names[:maxWriters], " and others"
	}
	return strings.Join(names, ", ") + more
}

func finalizersOf(live *unstructured.Unstructured) []report.Finalizer {
	var out []report.Finalizer
	for _, name := range live.GetFinalizers() {
		path := ownership.ItemOf(ownership.Path("metadata", "finalizers"), name)
		out = append(out, report.Finalizer{Name: name, Managers: ownership.Owners(live, path)})
	}
	return out
}
