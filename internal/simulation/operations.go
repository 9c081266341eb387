package simulation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
)

// withoutOperations separates the operations from the other objects of files, with those that CronOperations and WatchOperations would
// make: one for the first time of a schedule, and one for each object of the files that is watched.
func withoutOperations(files []Applied) (operations, others []Applied, err error) {
	for _, f := range files {
		var made []*unstructured.Unstructured
		switch f.Object.GroupVersionKind().GroupKind() {
		case operation.Kind.GroupKind():
			made = []*unstructured.Unstructured{f.Object}
		case operation.CronKind.GroupKind():
			made, err = ofSchedule(f.Object)
		case operation.WatchKind.GroupKind():
			made, err = ofWatch(f.Object, files)
		default:
			others = append(others, f)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s %s: %w", f.Source, f.Object.GetKind(), f.Object.GetName(), err)
		}
		for _, o := range made {
			operations = append(operations, Applied{Object: o, Source: f.Source})
		}
	}
	return operations, others, nil
}

// ofSchedule makes the operation for a time that depends on the schedule alone.
func ofSchedule(o *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	slot, err := operation.FirstSlot(o, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	made, err := operation.CronOperation(o, slot)
	return []*unstructured.Unstructured{made}, err
}

func ofWatch(o *unstructured.Unstructured, files []Applied) (out []*unstructured.Unstructured, err error) {
	watched, err := operation.WatchedBy(o)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Object.GroupVersionKind() != watched.Kind || watched.Namespace != "" && f.Object.GetNamespace() != watched.Namespace ||
			!watched.Selector.Matches(labels.Set(f.Object.GetLabels())) {
			continue
		}
		change := plan.Object{Namespace: f.Object.GetNamespace(), Name: f.Object.GetName()}
		made, err := operation.WatchedOperation(o, watched.Kind, plan.Change{Object: change, Operation: plan.WatchName(o.GetName(), watched.Kind, change)})
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}
