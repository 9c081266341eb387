package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// cluster stores objects by kind and name, and records what is written.
type cluster struct {
	objects map[string]*unstructured.Unstructured
	writes  []string
	refused error
	// installsFirst: another process makes each first write of an object before this one.
	installsFirst bool
	// unreadable is the answer to reads.
	unreadable error
}

func (c *cluster) Get(_ context.Context, kind schema.GroupVersionKind, _, name string) (*unstructured.Unstructured, error) {
	if c.unreadable != nil {
		return nil, c.unreadable
	}
	if o := c.objects[kind.Kind+" "+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (c *cluster) Create(_ context.Context, o *unstructured.Unstructured, _ string) (*unstructured.Unstructured, error) {
	return c.write("create", o)
}

func (c *cluster) Update(_ context.Context, o *unstructured.Unstructured, _ types.UID, _ string) (*unstructured.Unstructured, error) {
	return c.write("update", o)
}

func (c *cluster) Delete(_ context.Context, o *unstructured.Unstructured) error {
	c.writes = append(c.writes, "delete "+o.GetKind())
	delete(c.objects, o.GetKind()+" "+o.GetName())
	return c.refused
}

func (c *cluster) write(verb string, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key := o.GetKind() + " " + o.GetName()
	switch {
	case c.refused != nil:
		return nil, c.refused
	case c.installsFirst && c.objects[key] == nil:
		c.objects[key] = o.DeepCopy()
		return nil, apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("the object has been modified"))
	}
	c.writes = append(c.writes, verb+" "+o.GetKind())
	c.objects[key] = o
	return o, nil
}

func TestInstall(t *testing.T) {
	const policy, binding = "ValidatingAdmissionPolicy espalier-service-accounts", "ValidatingAdmissionPolicyBinding espalier-service-accounts"
	c := &cluster{objects: map[string]*unstructured.Unstructured{}}
	install := func(want ...string) {
		t.Helper()
		c.writes = nil
		if err := Install(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.writes, want) {
			t.Errorf("wrote %v, not %v", c.writes, want)
		}
	}
	install(slices.Repeat([]string{"create ValidatingAdmissionPolicy", "create ValidatingAdmissionPolicyBinding"}, 5)...)
	install()

	c.objects[policy].SetAnnotations(map[string]string{DigestAnnotation: "of an earlier release"})
	install("update ValidatingAdmissionPolicy")

	c.objects[binding].SetAnnotations(nil) // it is a chart's
	c.objects[binding].Object["spec"] = map[string]any{"policyName": "espalier-service-accounts", "validationActions": []any{"Audit"}}
	install()
}

func TestSeveralProcessesInstallAtTheSameTime(t *testing.T) {
	c := &cluster{objects: map[string]*unstructured.Unstructured{}, installsFirst: true}
	if err := Install(t.Context(), c); err != nil {
		t.Error("what another process has installed is reported as an error:", err)
	}
	if len(c.objects) != 10 || len(c.writes) != 0 {
		t.Errorf("%d objects exist; wrote %v", len(c.objects), c.writes)
	}
}

func TestInstallNamesWhatIsRefused(t *testing.T) {
	err := Install(t.Context(), &cluster{objects: map[string]*unstructured.Unstructured{}, refused: errors.New("not today")})
	for _, want := range []string{"ValidatingAdmissionPolicy espalier-service-accounts: not today", "ValidatingAdmissionPolicyBinding espalier-service-accounts: not today"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
