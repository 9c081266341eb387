package instance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
)

// notice notes that an object is on its way, and returns since when it has been
// seen to be.
func (m *memory) notice(o *unstructured.Unstructured, now time.Time) time.Time {
	put(&m.tried.Noticed)
	since, ok := m.tried.Noticed[o.GetUID()]
	if !ok {
		since = now
		m.tried.Noticed[o.GetUID()] = since
	}
	return since
}

// knowsFinalizers says whether it is known who put on the finalizers that the
// object has now.
func (m *memory) knowsFinalizers(o *unstructured.Unstructured) bool {
	known := m.tried.Finalizers[o.GetUID()]
	return slices.EqualFunc(known, o.GetFinalizers(), func(f report.Finalizer, name string) bool { return f.Name == name })
}

func (m *memory) learnFinalizers(o *unstructured.Unstructured, finalizers []report.Finalizer) {
	put(&m.tried.Finalizers)
	m.tried.Finalizers[o.GetUID()] = finalizers
}

// grant notes that an object was asked to go and will.
func (m *memory) grant(o *unstructured.Unstructured) {
	put(&m.tried.Asked)
	m.tried.Asked[o.GetUID()] = true
	delete(m.tried.Refusals, o.GetUID())
}

// refuse notes that an object was asked to go and won't.
func (m *memory) refuse(o *unstructured.Unstructured, said plan.Refusal, now time.Time) {
	put(&m.tried.Refusals)
	m.tried.Refusals[o.GetUID()] = m.tried.Refusals[o.GetUID()].Again(said.Reason, said.Message, o, now)
}

func put[V any](m *map[types.UID]V) {
	if *m == nil {
		*m = map[types.UID]V{}
	}
}
