package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// runner runs a suite. It has the suite's fields without its Go type.
type runner struct {
	kind func() port.Kind
	// newObject returns an object with a new name.
	newObject func() (*unstructured.Unstructured, error)
	// change changes the spec of an object; nil if Suite.Change is.
	change func(*unstructured.Unstructured) error
	// count is Suite.Count; nil if that is.
	count func(context.Context, *unstructured.Unstructured) (int, error)
	// roundTrip decodes an object as the type of the kind, and encodes it again.
	roundTrip func(map[string]any) (map[string]any, error)

	snapshot func(context.Context) (string, error)
	faults   []Fault
	objects  objects
	secrets  []string
	time     timeSource
	// virtualTime: the time only advances when the tests advance it.
	virtualTime  bool
	maxScenarios int
	// prefix makes the names of this run different from other runs' names, clusters counts the clusters that were made.
	prefix   string
	clusters int
	short    bool
	report   *Report
}

func newRunner[M managed.Object](s Suite[M]) (*runner, error) {
	if s.Kind == nil || s.New == nil {
		return nil, errors.New("the suite needs Kind and New")
	}
	r := &runner{
		kind:     func() port.Kind { return s.Kind().Port() },
		snapshot: s.Snapshot, faults: s.Faults, secrets: s.Secrets, maxScenarios: s.MaxScenarios, short: s.Short, report: &Report{},
		time: &fastClock{},
	}
	r.prefix = "conformance-" + strconv.FormatInt(time.Now().UnixNano()%1e9, 36) + "-"
	if s.Clock != nil {
		r.time, r.virtualTime, r.prefix = s.Clock, true, "conformance-"
	} else if r.maxScenarios == 0 {
		r.maxScenarios = 100
	}
	var err error
	if r.objects, err = readObjects(s.Objects); err != nil {
		return nil, err
	}
	r.roundTrip = func(o map[string]any) (map[string]any, error) {
		m, err := decode[M](o)
		if err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	}
	names := 0
	r.newObject = func() (*unstructured.Unstructured, error) {
		names++
		return newObject(s, r.kind().GVK, r.prefix+strconv.Itoa(names))
	}
	if _, err := newObject(s, r.kind().GVK, r.prefix+"0"); err != nil {
		return nil, err
	}
	if s.Count != nil {
		r.count = func(ctx context.Context, o *unstructured.Unstructured) (int, error) {
			m, err := decode[M](o.Object)
			if err != nil {
				return 0, err
			}
			return s.Count(ctx, m)
		}
	}
	if s.Change != nil {
		r.change = func(o *unstructured.Unstructured) error { return changeObject(s, o) }
	}
	return r, nil
}

// decode decodes an object as the type of the kind.
func decode[M managed.Object](o map[string]any) (M, error) {
	m := reflect.New(reflect.TypeFor[M]().Elem()).Interface().(M)
	if u, ok := any(m).(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(o)
		return m, nil
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, m)
	return m, err
}

// newObject returns an object as the API server would after its creation.
func newObject[M managed.Object](s Suite[M], kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.New(name))
	if err != nil {
		return nil, fmt.Errorf("encode the result of New: %w", err)
	}
	o := &unstructured.Unstructured{Object: raw}
	if o.GetName() != name {
		return nil, fmt.Errorf("New(%q) returned an object with the name %q", name, o.GetName())
	}
	o.SetGroupVersionKind(kind)
	o.SetUID(types.UID("uid-of-" + name))
	o.SetGeneration(1)
	return o, nil
}

// changeObject calls Suite.Change with an object.
func changeObject[M managed.Object](s Suite[M], o *unstructured.Unstructured) error {
	m, err := decode[M](o.Object)
	if err != nil {
		return err
	}
	s.Change(m)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return fmt.Errorf("encode the result of Change: %w", err)
	}
	if reflect.DeepEqual(raw["spec"], o.Object["spec"]) {
		return errors.New("the suite's Change does not change spec")
	}
	o.Object["spec"] = raw["spec"]
	o.SetGeneration(o.GetGeneration() + 1)
	return nil
}

// objects are what Connect may read, by objectKey.
type objects map[string]*unstructured.Unstructured

func objectKey(kind schema.GroupVersionKind, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}

// Get returns an object; nil if it does not exist.
func (o objects) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return o[objectKey(kind, namespace, name)].DeepCopy(), nil
}

// Owner returns nil: a scenario has no other managed resources.
func (o objects) Owner(external.Key) (*external.Owner, error) { return nil, nil }

func readObjects(all []runtime.Object) (objects, error) {
	out := objects{}
	for _, o := range all {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("read Objects: %w", err)
		}
		u := &unstructured.Unstructured{Object: raw}
		kind := o.GetObjectKind().GroupVersionKind()
		if kind.Empty() {
			known, _, err := scheme.Scheme.ObjectKinds(o)
			if err != nil {
				return nil, fmt.Errorf("read Objects: %w", err)
			}
			kind = known[0]
		}
		u.SetGroupVersionKind(kind)
		out[objectKey(kind, u.GetNamespace(), u.GetName())] = u
	}
	return out, nil
}
