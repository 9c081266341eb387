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

	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// trial is a suite without its Go type, and what came of it.
type trial struct {
	kind func() port.Kind
	// fresh makes an object that there wasn't yet.
	fresh func() (*unstructured.Unstructured, error)
	// change changes its spec; nil if nothing can be.
	change func(*unstructured.Unstructured) error
	// count is Suite.Count, and nil if that is.
	count func(context.Context, *unstructured.Unstructured) (int, error)
	// typed reads an object as the kind's type, and writes it again.
	typed func(map[string]any) (map[string]any, error)

	snapshot func(context.Context) (string, error)
	ills     []Trouble
	objects  objects
	secrets  []string
	time     passage
	// madeUp says that time stands still while the kit doesn't let it go by.
	madeUp bool
	most   int
	// prefix sets this run's names apart from those of others, worlds counts them.
	prefix string
	worlds int
	short  bool
	report *Report
}

func newTrial[M managed.Object](s Suite[M]) (*trial, error) {
	if s.Kind == nil || s.New == nil {
		return nil, errors.New("the suite needs Kind and New")
	}
	tr := &trial{
		kind:     func() port.Kind { return s.Kind().Port() },
		snapshot: s.Snapshot, ills: s.Troubles, secrets: s.Secrets, most: s.Lives, short: s.Short, report: &Report{},
		time: &hurry{},
	}
	tr.prefix = "conformance-" + strconv.FormatInt(time.Now().UnixNano()%1e9, 36) + "-"
	if s.Clock != nil {
		tr.time, tr.madeUp, tr.prefix = s.Clock, true, "conformance-"
	} else if tr.most == 0 {
		tr.most = 100
	}
	var err error
	if tr.objects, err = read(s.Objects); err != nil {
		return nil, err
	}
	tr.typed = func(o map[string]any) (map[string]any, error) {
		m, err := as[M](o)
		if err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	}
	made := 0
	tr.fresh = func() (*unstructured.Unstructured, error) {
		made++
		return object(s, tr.kind().GVK, tr.prefix+strconv.Itoa(made))
	}
	if s.Count != nil {
		tr.count = func(ctx context.Context, o *unstructured.Unstructured) (int, error) {
			m, err := as[M](o.Object)
			if err != nil {
				return 0, err
			}
			return s.Count(ctx, m)
		}
	}
	if s.Change != nil {
		tr.change = func(o *unstructured.Unstructured) error { return changed(s, o) }
	}
	return tr, nil
}

// as is an object of the kind's type.
func as[M managed.Object](o map[string]any) (M, error) {
	m := reflect.New(reflect.TypeFor[M]().Elem()).Interface().(M)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, m)
	return m, err
}

// object is one as the API server would give it.
func object[M managed.Object](s Suite[M], kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.New(name))
	if err != nil {
		return nil, fmt.Errorf("what New gives: %w", err)
	}
	o := &unstructured.Unstructured{Object: raw}
	if o.GetName() != name {
		return nil, fmt.Errorf("New(%q) has the name %q", name, o.GetName())
	}
	o.SetGroupVersionKind(kind)
	o.SetUID(types.UID("uid-of-" + name))
	o.SetGeneration(1)
	return o, nil
}

// changed makes the suite's change of an object.
func changed[M managed.Object](s Suite[M], o *unstructured.Unstructured) error {
	m, err := as[M](o.Object)
	if err != nil {
		return err
	}
	s.Change(m)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return fmt.Errorf("what Change gives: %w", err)
	}
	if reflect.DeepEqual(raw["spec"], o.Object["spec"]) {
		return errors.New("nothing of spec is changed by Change")
	}
	o.Object["spec"] = raw["spec"]
	o.SetGeneration(o.GetGeneration() + 1)
	return nil
}

// objects are what Connect may read.
type objects map[string]*unstructured.Unstructured

func place(kind schema.GroupVersionKind, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}

// Get reads one.
func (o objects) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return o[place(kind, namespace, name)].DeepCopy(), nil
}

func read(all []runtime.Object) (objects, error) {
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
		out[place(kind, u.GetNamespace(), u.GetName())] = u
	}
	return out, nil
}
