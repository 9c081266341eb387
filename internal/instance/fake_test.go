package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// fake holds what a Reconciler reads and writes. It records each request and each event, fails
// on request, and knows no more of the API server than names, UIDs and finalizers.
type fake struct {
	mu sync.Mutex
	// applying is held by an apply that reads and writes an object.
	applying sync.Mutex
	objects  map[object.Key]*unstructured.Unstructured
	revision int
	// calls are the requests, as "create ConfigMap web", events as "Warning NotReady: why".
	calls, events []string
	// fail has the error of a request, by its call.
	fail map[string]error
	// crash returns the error of a request; optional.
	crash func(call string) error
	// maxStatus is how many bytes of a status are stored; 0 for any.
	maxStatus int
	// statusRecheck is when a status should be written again.
	statusRecheck time.Duration
	// answer changes what a write answers.
	answer func(*unstructured.Unstructured)
	// unsynced are kinds that can't be read, gone those that no server knows.
	unsynced map[string]watch.State
	gone     map[string]bool
	// goneAfterLookup are kinds that are gone once they have been looked up.
	goneAfterLookup map[string]bool
	kindsErr        error
	crds            map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
	schemas         map[string]object.KindInfo
	// wanted is what the open lease has read, watched what the last that was committed had.
	wanted, watched []string
	// last is what was deleted past its finalizer. orphaned says that a deletion asked for the children to stay, why is the reason of refusals.
	orphaned bool
	// deletionSeen says that the cache knows how the deletion was requested.
	deletionSeen bool
	// confirms says that the answer to a deletion says whether the object is gone, as for most kinds.
	confirms   bool
	why        kube.Reason
	last       *unstructured.Unstructured
	uses       map[object.Key][]usage.Usage
	unreadable *plan.Unreadable
}

type (
	fakeCluster struct{ *fake }
	fakeCache   struct{ *fake }
	fakeKinds   struct{ *fake }
	fakeUsages  struct{ *fake }
)

// request records a request, and returns the error that it is to fail with.
func (f *fake) request(verb, kind, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := verb + " " + kind + " " + name
	f.calls = append(f.calls, call)
	if f.crash != nil {
		if err := f.crash(call); err != nil {
			return err
		}
	}
	return f.fail[call]
}

// live is the object with the UID; without a UID it is that of the name.
func (f *fake) live(o *unstructured.Unstructured, uid types.UID) (*unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := f.objects[object.KeyOf(o)]
	if live == nil || uid != "" && live.GetUID() != uid {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: o.GetKind()}, o.GetName())
	}
	return live, nil
}

// put stores an object, or drops one that nothing keeps.
func (f *fake) put(o *unstructured.Unstructured) *unstructured.Unstructured {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	o.SetResourceVersion(strconv.Itoa(f.revision))
	if f.objects[object.KeyOf(o)] = o; o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(f.objects, object.KeyOf(o))
	}
	if f.answer != nil {
		f.answer(o)
	}
	return o
}

// write merges a change into the object with the UID.
func (f *fake) write(verb string, o *unstructured.Unstructured, uid types.UID, change map[string]any) (*unstructured.Unstructured, error) {
	if err := f.request(verb, o.GetKind(), o.GetName()); err != nil {
		return nil, err
	}
	live, err := f.live(o, uid)
	if err != nil {
		return nil, err
	}
	live = live.DeepCopy()
	merge(live.Object, runtime.DeepCopyJSON(change))
	return f.put(live), nil
}

func (f fakeCluster) Create(_ context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	if err := f.request("create", o.GetKind(), o.GetName()); err != nil {
		return nil, err
	}
	if live, _ := f.live(o, ""); live != nil {
		return nil, taken(live)
	}
	o = &unstructured.Unstructured{Object: owned(o, manager)}
	o.SetUID(types.UID("uid-" + o.GetName()))
	return f.put(o), nil
}

func (f fakeCluster) Update(_ context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return f.write("update", o, uid, owned(o, manager))
}

func (f fakeCluster) UpdateWithoutForce(_ context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return f.write("share", o, uid, owned(o, manager))
}

func (f fakeCluster) DryRunUpdate(_ context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	_, err := f.write("try", o, uid, nil)
	return &unstructured.Unstructured{Object: owned(o, manager)}, err
}

func (f fakeCluster) DryRunCreate(_ context.Context, o *unstructured.Unstructured, _ string) error {
	return f.request("try to create", o.GetKind(), o.GetName())
}

func (f fakeCluster) ReplaceManagedFields(_ context.Context, o *unstructured.Unstructured, _ string, compute func(*unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool)) (*unstructured.Unstructured, error) {
	entries, _ := compute(o)
	return f.write("fold", o, o.GetUID(), asJSON(map[string]any{"metadata": map[string]any{"managedFields": entries}}))
}

func (f fakeCluster) Patch(_ context.Context, o *unstructured.Unstructured, change map[string]any, _ string) (*unstructured.Unstructured, error) {
	return f.write("patch", o, o.GetUID(), asJSON(change))
}

func (f fakeCluster) PatchIfExists(_ context.Context, o *unstructured.Unstructured, change map[string]any, _ string) error {
	_, err := f.write("change", o, o.GetUID(), asJSON(change))
	return err
}

func (f fakeCluster) SetFinalizers(_ context.Context, o *unstructured.Unstructured, finalizers []string, _ string) (*unstructured.Unstructured, error) {
	return f.write("set finalizers of", o, o.GetUID(), asJSON(map[string]any{"metadata": map[string]any{"finalizers": finalizers}}))
}

func (f fakeCluster) RemoveFinalizers(_ context.Context, o *unstructured.Unstructured, finalizers []string, _ string) (*unstructured.Unstructured, error) {
	left := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(name string) bool { return slices.Contains(finalizers, name) })
	return f.write("remove finalizers of", o, o.GetUID(), asJSON(map[string]any{"metadata": map[string]any{"finalizers": append([]string{}, left...)}}))
}

func (f fakeCluster) WriteStatus(_ context.Context, o *unstructured.Unstructured, status map[string]any, _ string) (*unstructured.Unstructured, error) {
	if text, _ := json.Marshal(status); f.maxStatus > 0 && len(text) > f.maxStatus {
		_ = f.request("status", o.GetKind(), o.GetName())
		return nil, apierrors.NewRequestEntityTooLargeError("the status is too large")
	}
	return f.write("status", o, o.GetUID(), map[string]any{"status": replacing(o, "status", status)})
}

func (f fakeCluster) StatusRecheck(schema.GroupVersionKind) time.Duration { return f.statusRecheck }

func (f fakeCluster) DeleteIfMetadataUnchanged(_ context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) (gone bool, err error) {
	verb := "delete"
	if policy != metav1.DeletePropagationBackground {
		verb = "delete in the " + strings.ToLower(string(policy))
	}
	answer, err := f.write(verb, o, o.GetUID(), map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-08-01T12:00:00Z"}})
	return err == nil && f.confirms && len(answer.GetFinalizers()) == 0, err
}

func (f fakeCluster) Get(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if err := f.request("get", kind.Kind, name); err != nil {
		return nil, err
	}
	return f.live(named(kind, namespace, name), "")
}

func (f fakeCluster) ListIn(_ context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	err := f.request("list", kind.Kind, cmp.Or(namespace, "all"))
	parsed, _ := labels.Parse(selector)
	var out []unstructured.Unstructured
	for _, o := range f.matching(kind, namespace, parsed) {
		out = append(out, *o)
	}
	return out, err
}

func (f fakeCluster) WasOrphaned(_ context.Context, o *unstructured.Unstructured) (bool, error) {
	return f.orphaned, f.request("read the deletion of", o.GetKind(), o.GetName())
}

func (f fakeCluster) DiagnoseError(_ context.Context, _ *unstructured.Unstructured, _ string, err error) (kube.Reason, string) {
	return f.why, err.Error()
}

func (f *fake) matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range f.objects {
		if o.GroupVersionKind() == kind && (namespace == "" || namespace == o.GetNamespace()) && selector.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

func (f *fake) state(kind schema.GroupVersionKind) watch.State {
	if state, ok := f.unsynced[kind.Kind]; ok {
		return state
	}
	return watch.State{Phase: watch.Synced}
}

func (f fakeCache) Watch(t watch.Target) watch.State {
	f.wanted = append(f.wanted, t.Kind().Kind)
	return f.state(t.Kind())
}

func (f fakeCache) Children(kind schema.GroupVersionKind, owner string) ([]*unstructured.Unstructured, watch.State) {
	if state, ok := f.unsynced[kind.Kind+" in all"]; ok {
		f.fake.wanted = append(f.fake.wanted, kind.Kind)
		return nil, state
	}
	return f.Matching(kind, "", labels.SelectorFromSet(labels.Set{v1alpha1.ApplySetPartOfLabel: owner}))
}

func (f fakeCache) ChildrenIn(kind schema.GroupVersionKind, namespaces []string, owner string) (all []*unstructured.Unstructured, state watch.State) {
	state = f.state(kind)
	for _, namespace := range namespaces {
		f.fake.wanted = append(f.fake.wanted, kind.Kind+" in "+namespace)
		if one := f.unsynced[kind.Kind+" in "+namespace]; one.Phase != "" {
			state = one
			continue
		}
		all = append(all, f.matching(kind, namespace, labels.SelectorFromSet(labels.Set{v1alpha1.ApplySetPartOfLabel: owner}))...)
	}
	return all, state
}

func (f fakeCache) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	f.fake.wanted = append(f.fake.wanted, kind.Kind+" "+name)
	found, _ := f.live(named(kind, namespace, name), "")
	return found, f.state(kind)
}

func (f fakeCache) OwnObject(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	return f.Object(kind, namespace, name)
}

func (f fakeCache) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State) {
	f.fake.wanted = append(f.fake.wanted, kind.Kind)
	return f.matching(kind, namespace, selector), f.state(kind)
}

func (f fakeCache) Commit() {
	if f.wanted != nil {
		f.fake.watched, f.fake.wanted = f.wanted, nil
	}
}
func (f fakeCache) Discard()                { f.fake.wanted = nil }
func (f fakeCache) Forget(watch.Subscriber) { f.fake.watched = nil }

func (f fakeCache) Write(_ watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	return do()
}

func (f fakeCache) Record(*unstructured.Unstructured, watch.Subscriber)                          {}
func (f fakeCache) RecordGone(schema.GroupVersionKind, string, string, string, watch.Subscriber) {}

func (f fakeCache) GetCached(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	found, err := f.live(named(kind, namespace, name), "")
	return found, err == nil
}
func (f fakeCache) WasOrphaned(schema.GroupVersionKind, *unstructured.Unstructured) (orphaned, known bool) {
	return false, f.deletionSeen
}
func (f fakeCache) DeletedDespiteFinalizers(schema.GroupVersionKind, string, string) *unstructured.Unstructured {
	return f.last
}
func (f fakeCache) ForgetDeletedDespiteFinalizers(schema.GroupVersionKind, string, string) {
	f.fake.last = nil
}

func (f fakeKinds) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	return f.crds[gk], f.crds[gk] != nil
}

func (f fakeKinds) Availability(_ context.Context, gk schema.GroupKind) (schema.GroupVersionKind, kube.Availability, error) {
	if f.gone[gk.Kind] {
		return schema.GroupVersionKind{}, kube.Gone, nil
	}
	if f.goneAfterLookup[gk.Kind] {
		f.gone = map[string]bool{gk.Kind: true}
	}
	return gk.WithVersion("v1"), kube.Served, f.kindsErr
}

func (f fakeKinds) IsTerminating(gk schema.GroupKind) bool {
	return f.crds[gk] != nil && f.crds[gk].DeletionTimestamp != nil
}

func (f fakeKinds) Resolve(_ context.Context, kind schema.GroupVersionKind) (kube.Resource, error) {
	return kube.Resource{GVR: kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"), Namespaced: kind.Kind != "Namespace"}, f.kindsErr
}

func (f fakeKinds) Lookup(_ context.Context, kind schema.GroupVersionKind) (object.KindInfo, bool, error) {
	info, known := f.schemas[kind.Kind]
	return info, known, f.kindsErr
}

func (f fakeUsages) Subscribe(_ object.Key, about []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable) {
	return f.uses, f.unreadable
}
func (f fakeUsages) Forget(object.Key) {}

func (f *fake) Event(_ runtime.Object, severity telemetry.Severity, reason, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, fmt.Sprintf("%s %s: %s", severity, reason, message))
}
