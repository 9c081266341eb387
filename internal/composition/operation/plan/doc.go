// Package plan decides which operations a CronOperation or a WatchOperation makes and deletes, and what a failed attempt of an operation
// means.
//
// Pure: it decides from values alone.
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Operation is an operation that a CronOperation or a WatchOperation has made.
type Operation struct {
	Name    string
	Created time.Time
	// Ended is when it ended; zero while it runs, or has not begun yet.
	Ended     time.Time
	Succeeded bool
	// Watched is the object that changed.
	Watched Object
}

// Read reads an operation. What has no result counts as running, also before its first reconcile.
func Read(o *unstructured.Unstructured) Operation {
	a := o.GetAnnotations()
	out := Operation{Name: o.GetName(), Created: o.GetCreationTimestamp().Time, Watched: Object{
		Namespace: a[v1alpha1.WatchedNamespaceAnnotation], Name: a[v1alpha1.WatchedNameAnnotation],
	}}
	if c, _ := condition.Read(o).Get(v1alpha1.TypeSucceeded); c.Status == condition.True || c.Status == condition.False {
		out.Succeeded, out.Ended = c.Status == condition.True, out.Created
		if c.LastTransitionTime != nil {
			out.Ended = c.LastTransitionTime.Time
		}
	}
	return out
}

func (o Operation) runs() bool { return o.Ended.IsZero() }

// Running are the names of the operations that have not ended, sorted.
func Running(all []Operation) (names []string) {
	for _, o := range all {
		if o.runs() {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// LastSuccess is when an operation last succeeded; zero if none has.
func LastSuccess(all []Operation) (last time.Time) {
	for _, o := range all {
		if o.Succeeded && o.Ended.After(last) {
			last = o.Ended
		}
	}
	return last
}

// Expired are the names of the operations beyond the limits: the oldest of those that have succeeded, and of those that have failed.
func Expired(all []Operation, successful, failed int) (names []string) {
	newestFirst := slices.SortedFunc(slices.Values(all), func(a, b Operation) int {
		return cmp.Or(b.Ended.Compare(a.Ended), b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name))
	})
	for _, o := range newestFirst {
		left := &failed
		switch {
		case o.runs():
			continue
		case o.Succeeded:
			left = &successful
		}
		if *left--; *left < 0 {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// shortHash is enough to tell the changes of a few hundred objects apart.
func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:7]
}
