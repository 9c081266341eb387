package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestWhoAppliedAnObject(t *testing.T) {
	for name, tc := range map[string]struct{ entries, want string }{
		"nobody":                             {"[]", ""},
		"kubectl on the client":              {"[{manager: kubectl-client-side-apply, operation: Update, fieldsV1: {'f:spec': {}}}]", ""},
		"kubectl on the server":              {"[{manager: kubectl, operation: Apply, fieldsV1: {'f:spec': {}}}]", "kubectl"},
		"who applied most":                   {"[{manager: labels, operation: Apply, fieldsV1: {}}, {manager: flux, operation: Apply, fieldsV1: {'f:spec': {}}}]", "flux"},
		"not the controllers of an instance": {"[{manager: kro.run/applyset-parent, operation: Apply, fieldsV1: {'f:metadata': {'f:annotations': {}}}}]", ""},
		"not of a status":                    {"[{manager: other, operation: Apply, subresource: status, fieldsV1: {'f:status': {}}}]", ""},
	} {
		o := fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: " + tc.entries + "}}")
		if got := applyManager(o); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestApplyOnTheClientRemovesWhatWasAppliedBefore(t *testing.T) {
	live := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a ANNOTATIONS}, data: {kept: x, gone: x, others: x}}"
	const last = `, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"kept":"x","gone":"x"}}'}`
	wanted := fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {kept: z}}")
	for name, tc := range map[string]struct{ annotations, want string }{
		"applied before": {last, `{"data":{"gone":null,"kept":"z"}}`},
		"never applied":  {"", `{"data":{"kept":"z"}}`},
	} {
		patch, err := threeWayPatch(fakekube.Parse(strings.Replace(live, "ANNOTATIONS", tc.annotations, 1)), wanted)
		if err != nil || string(patch) != tc.want {
			t.Errorf("%s: got %s, %v", name, patch, err)
		}
	}
	broken := fakekube.Parse(strings.Replace(live, "ANNOTATIONS", ", annotations: {kubectl.kubernetes.io/last-applied-configuration: nothing}", 1))
	if _, err := threeWayPatch(broken, wanted); err == nil {
		t.Error("a broken annotation is ignored")
	}
}

func TestTheAnnotationIsThatOfKubectl(t *testing.T) {
	o := fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: z}}")
	if err := annotate(o); err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","data":{"x":"z"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"a"}}` + "\n"
	if got := o.GetAnnotations()[lastAppliedAnnotation]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// kindsOf serves kinds; others are served once they are added.
type kindsOf map[string]bool

func (k kindsOf) Resolve(_ context.Context, gvk schema.GroupVersionKind) (kube.Resource, error) {
	if !k[gvk.Kind] {
		return kube.Resource{}, &kube.NoKindMatchError{Kind: gvk}
	}
	return kube.Resource{GVR: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: gvk.Kind == "ConfigMap"}, nil
}

func TestFilesAreAppliedOnceTheirKindsAreServed(t *testing.T) {
	c := fakekube.New()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds := kindsOf{"CustomResourceDefinition": true}
	a := &Applier{Client: client, Kinds: kinds, Namespace: "prod"}
	add := func(text string) {
		a.Add(Applied{Object: fakekube.Parse(text), Source: "all.yaml"})
	}
	add("{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}")
	add("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: apps.example.org}}")
	add("{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: none}}")
	add("{apiVersion: example.org/v1, kind: Other, metadata: {name: none}}")
	next := func(want bool) {
		t.Helper()
		if applied, err := a.Next(t.Context()); err != nil || applied != want {
			t.Fatalf("applied: %t, %v", applied, err)
		}
	}
	next(true) // the definition
	kinds["ConfigMap"] = true
	next(true) // the instance
	next(false)
	var created []string
	for _, request := range c.Requests {
		if strings.HasPrefix(request, "create ") {
			created = append(created, request)
		}
	}
	if got := strings.Join(created, "; "); got != "create CustomResourceDefinition apps.example.org; create ConfigMap prod/web" {
		t.Errorf("requests: %s", got)
	}
	var problems []string
	for _, p := range a.Problems() {
		problems = append(problems, p.Object+" "+p.Reason)
	}
	if got := strings.Join(problems, "; "); got != "Composition none NoKind; Other none NoKind" {
		t.Errorf("problems: %s", got)
	}
}

func TestARefusedObjectIsAProblem(t *testing.T) {
	c := fakekube.New()
	c.Before = func(request string) error {
		if strings.HasPrefix(request, "create") {
			return errTest
		}
		return nil
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	a := &Applier{Client: client, Kinds: kindsOf{"ConfigMap": true}, Namespace: "prod"}
	a.Add(Applied{Object: fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}"), Source: "web.yaml"})
	if _, err := a.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := a.Problems(); len(p) != 1 || p[0].Reason != "Refused" || !strings.Contains(p[0].Remedy, "web.yaml") {
		t.Errorf("problems: %+v", p)
	}
}

// The definition may be invalid, or the instance may have a version that it does not have.
func TestAKindThatItsDefinitionDoesNotServe(t *testing.T) {
	c := fakekube.New()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	a := &Applier{Client: client, Kinds: kindsOf{"ResourceGraphDefinition": true}}
	a.Add(Applied{Object: fakekube.Parse("{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: shop}, spec: {schema: {kind: Shop, group: example.org}}}"), Source: "shop.yaml"},
		Applied{Object: fakekube.Parse("{apiVersion: example.org/v1, kind: Shop, metadata: {name: one}}"), Source: "one.yaml"},
		Applied{Object: fakekube.Parse("{apiVersion: example.com/v1, kind: Shop, metadata: {name: two}}"), Source: "two.yaml"})
	for {
		if applied, err := a.Next(t.Context()); err != nil {
			t.Fatal(err)
		} else if !applied {
			break
		}
	}
	problems := slices.DeleteFunc(a.Problems(), func(p preview.Problem) bool { return p.Reason != "NoKind" })
	if len(problems) != 2 {
		t.Fatalf("want a problem of each instance, got %v", problems)
	}
	if p := problems[0]; p.Message != "ResourceGraphDefinition shop does not serve Shop in example.org/v1: it has problems, or other versions" || p.Remedy != "correct the definition in shop.yaml, or apiVersion in one.yaml" {
		t.Errorf("%+v", p)
	}
	if p := problems[1]; !strings.Contains(p.Message, "nor do the files define it") {
		t.Errorf("%+v", p)
	}
}
