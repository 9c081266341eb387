package instance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/fieldmanager"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/report"
)

// foldManagers gives what managers of a former engine own of an object to ours, if there
// is anything, so that the next apply removes what isn't wanted any more. Otherwise it
// makes no request.
func (r *Reconciler) foldManagers(ctx context.Context, v *visit, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !fieldmanager.IsDue(o) {
		return o, nil
	}
	folded, err := r.write(v, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.FoldManagers(ctx, o, v1alpha1.ChildManager)
	})
	if err != nil {
		return nil, err
	}
	logr.FromContextOrDiscard(ctx).Info("took over the managed fields of a former engine", "object", object.KeyOf(o))
	return folded, nil
}

// managersOf names, sorted, the managers of a field of an object's metadata, such
// as finalizers and one of them, as its managed fields tell.
func managersOf(live *unstructured.Unstructured, field, key string) []string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil || slices.Contains(names, entry.Manager) {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, has, _ := unstructured.NestedFieldNoCopy(fields, "f:metadata", "f:"+field, key); has {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// mostWriters bounds how many managers of an object a message names.
const mostWriters = 3

// writersOf names, sorted, who wrote an object, but for those who only tell its status.
func writersOf(live *unstructured.Unstructured) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource != "status" && !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	more := ""
	if len(names) > mostWriters {
		names, more = names[:mostWriters], " and others"
	}
	return strings.Join(names, ", ") + more
}

// finalizersOf lists an object's finalizers with those who put them on.
func finalizersOf(live *unstructured.Unstructured) []report.Finalizer {
	var out []report.Finalizer
	for _, name := range live.GetFinalizers() {
		quoted, err := json.Marshal(name)
		if err != nil {
			continue
		}
		out = append(out, report.Finalizer{Name: name, Managers: managersOf(live, "finalizers", "v:"+string(quoted))})
	}
	return out
}
