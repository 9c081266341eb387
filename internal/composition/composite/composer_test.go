package composite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// contents are what a cluster holds.
type contents map[plan.Need]plan.Lookup

func (c contents) read(need plan.Need) plan.Lookup {
	if need.Scope {
		return plan.Lookup{Namespaced: true}
	}
	return c[need]
}

// recorder is a function that wants one ConfigMap, and what it saw when it was called.
type recorder struct {
	wants map[string]any
	saw   [][]string
	// copies is how many resources it wants, if not one.
	copies int
}

func (r *recorder) Run(_ context.Context, _ string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	saw := []string{}
	for name, resource := range request.GetObserved().GetResources() {
		for key := range resource.GetConnectionDetails() {
			name += "/" + key
		}
		saw = append(saw, name)
	}
	slices.Sort(saw)
	r.saw = append(r.saw, saw)
	object, err := structs.ToStruct(r.wants)
	resources := map[string]*fnv1.Resource{"store": {Resource: object}}
	for n := 1; n < r.copies; n++ {
		resources[fmt.Sprint("store-", n)] = &fnv1.Resource{Resource: object}
	}
	return &fnv1.RunFunctionResponse{Desired: &fnv1.State{Resources: resources}}, err
}

func composer(runner *recorder) *Composer {
	definition := &v1.CompositeResourceDefinition{Spec: v1.DefinitionSpec{
		Group: "example.com", Scope: v1.NamespacedScope, Versions: []v1.DefinitionVersion{{Name: "v1", Served: true, Referenceable: true}},
	}}
	definition.Spec.Names.Kind = "App"
	kind := v1.TypeReferenceTo(definition.CompositeKind())
	composition := &v1.Composition{Spec: v1.CompositionSpec{CompositeTypeRef: kind}}
	composition.Name = "apps"
	revision := &v1.CompositionRevision{Spec: v1.CompositionRevisionSpec{CompositeTypeRef: kind, Revision: 1, Pipeline: []v1.PipelineStep{{Step: "code"}}}}
	revision.Name, revision.Labels = "apps-1", map[string]string{v1.CompositionNameLabel: "apps"}
	return &Composer{
		Snapshot: xrd.Snapshot{Definition: definition, Compositions: []*v1.Composition{composition}, Revisions: []*v1.CompositionRevision{revision}},
		Runner:   runner, Now: func() time.Time { return time.Unix(0, 0) }, Memories: &Memories{},
	}
}

func instanceOf(refs ...xrd.ComposedRef) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App"}}
	o.SetNamespace("prod")
	o.SetName("shop")
	o.SetUID("1")
	xrd.NewInstance(o, xrd.LayoutOf(v1.NamespacedScope)).SetResourceRefs(refs)
	return o
}

func part(kind, namespace, name, resource string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID("2")
	o.SetAnnotations(map[string]string{v1.CompositionResourceNameAnnotation: resource})
	return o
}

// Functions would make something else of a part of what there is.
func TestFunctionsSeeAllThereIsOrAreNotAsked(t *testing.T) {
	bucket := schema.GroupVersionKind{Group: "aws.example.com", Version: "v1", Kind: "Bucket"}
	published := part("Bucket", "prod", "shop-2", "bucket")
	published.SetAPIVersion("aws.example.com/v1")
	published.Object["spec"] = map[string]any{"writeConnectionSecretToRef": map[string]any{"namespace": "theirs", "name": "bucket"}}
	needed := plan.Need{Kind: secretKind, Namespace: "prod", Name: "bucket"}
	secret := part("Secret", "prod", "bucket", "")
	secret.Object["data"] = map[string]any{"password": "b3Vycw=="}
	blind := func(r plan.Reason) plan.Unreadable {
		return plan.Unreadable{Problem: plan.Problem{Reason: r, Message: "why"}}
	}

	cases := map[string]struct {
		reason  string
		owned   []*unstructured.Unstructured
		unread  map[schema.GroupVersionKind]plan.Unreadable
		objects map[plan.Need]plan.Lookup
		want    [][]string // what the function saw
		problem plan.Reason
	}{
		"All is known":                            {"then it is asked", []*unstructured.Unstructured{part("ConfigMap", "prod", "shop-1", "store")}, nil, nil, [][]string{{"store"}}, ""},
		"A kind is being read":                    {"it would take back what follows from that", nil, map[schema.GroupVersionKind]plan.Unreadable{bucket: blind(plan.Syncing)}, nil, nil, plan.Syncing},
		"A kind may not be read":                  {"there may be objects", nil, map[schema.GroupVersionKind]plan.Unreadable{bucket: blind(plan.Forbidden)}, nil, nil, plan.Forbidden},
		"A kind's server doesn't answer":          {"somebody has to see to that", nil, map[schema.GroupVersionKind]plan.Unreadable{bucket: blind(plan.Unavailable)}, nil, nil, plan.PipelineFailed},
		"A kind isn't there":                      {"so there are no objects, and others go on", nil, map[schema.GroupVersionKind]plan.Unreadable{bucket: blind(plan.WaitingForKind)}, nil, [][]string{{}}, ""},
		"Connection details are being read":       {"they would be missing where they are published", []*unstructured.Unstructured{published}, nil, map[plan.Need]plan.Lookup{needed: {Unreadable: new(blind(plan.Syncing))}}, nil, plan.Syncing},
		"Connection details are of the namespace": {"nobody has another's read", []*unstructured.Unstructured{published}, nil, map[plan.Need]plan.Lookup{needed: {Object: secret}}, [][]string{{"bucket/password"}}, ""},
		"An object of another namespace":          {"somebody else has made it, whatever it says", []*unstructured.Unstructured{part("ConfigMap", "theirs", "shop-1", "store")}, nil, nil, [][]string{{}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runner := &recorder{wants: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			facts := plan.Facts{Instance: instanceOf(), Owned: map[string][]*unstructured.Unstructured{}, UnreadableOwned: tc.unread}
			for _, o := range tc.owned {
				node := o.GetAnnotations()[v1.CompositionResourceNameAnnotation]
				facts.Owned[node] = append(facts.Owned[node], o)
			}
			desired, err := instance.ComposeReading(t.Context(), composer(runner), facts, contents(tc.objects).read)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, runner.saw); diff != "" || desired.Problem.Reason != tc.problem {
				t.Errorf("%s: the problem is %v; it saw (-want +got):\n%s", tc.reason, desired.Problem, diff)
			}
			if tc.problem != "" && len(desired.Fields) > 0 {
				t.Errorf("what it refers to is changed: %v", desired.Fields)
			}
		})
	}
}

func TestTheNameOfAnObject(t *testing.T) {
	ref := func(name, resource string) xrd.ComposedRef {
		return xrd.ComposedRef{APIVersion: "v1", Kind: "ConfigMap", Name: name, ResourceName: resource}
	}
	cases := map[string]struct {
		reason string
		wants  string // metadata
		refs   []xrd.ComposedRef
		owned  map[string][]*unstructured.Unstructured
		want   string
		there  bool
	}{
		"The one that it has":                 {"a composition may change how it names", `{}`, nil, map[string][]*unstructured.Unstructured{"store": {part("ConfigMap", "prod", "mine", "store")}}, "mine", true},
		"The one that was written down":       {"it was to be made when something ended", `{}`, []xrd.ComposedRef{ref("written", "store")}, nil, "written", false},
		"One that a function gives":           {"it knows best", `{"name":"given"}`, []xrd.ComposedRef{ref("written", "store")}, map[string][]*unstructured.Unstructured{"store": {part("ConfigMap", "prod", "mine", "store")}}, "given", false},
		"One that a function gives, again":    {"the other is on its way", `{"name":"given"}`, nil, map[string][]*unstructured.Unstructured{"store": {part("ConfigMap", "prod", "a", "store"), part("ConfigMap", "prod", "given", "store")}}, "given", true},
		"Of the object that it refers to":     {"the name is on another's as well", `{}`, []xrd.ComposedRef{ref("a", "front"), ref("b", "store")}, map[string][]*unstructured.Unstructured{"store": {part("ConfigMap", "prod", "a", "store"), part("ConfigMap", "prod", "b", "store")}}, "b", true},
		"Of the object of its kind":           {"the other is what it was before", `{}`, nil, map[string][]*unstructured.Unstructured{"store": {part("Secret", "prod", "a", "store"), part("ConfigMap", "prod", "b", "store")}}, "b", true},
		"Not of an object of another's space": {"nobody else names what is made here", `{}`, nil, map[string][]*unstructured.Unstructured{"store": {part("ConfigMap", "theirs", "evil", "store")}}, "shop-ef068af04ca6", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var metadata map[string]any
			o := unstructured.Unstructured{}
			if err := o.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":` + tc.wants + `}`)); err != nil {
				t.Fatal(err)
			}
			metadata, _ = o.Object["metadata"].(map[string]any)
			runner := &recorder{wants: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": maps.Clone(metadata)}}
			facts := plan.Facts{Instance: instanceOf(tc.refs...), Owned: tc.owned}
			desired, err := instance.ComposeReading(t.Context(), composer(runner), facts, contents{}.read)
			if err != nil || len(desired.Nodes) != 1 {
				t.Fatalf("got %v, %v", desired, err)
			}
			node := desired.Nodes[0]
			if got := node.Object.GetName(); got != tc.want || (node.Observed != nil) != tc.there {
				t.Errorf("%s: want %s, there %t; got %s, %v", tc.reason, tc.want, tc.there, got, node.Observed)
			}
		})
	}
}

// What is named by nobody has the same name after a crash, and another in each composite.
func TestNamesFollowFromWhatIsKnown(t *testing.T) {
	seen := map[string]string{}
	for _, resource := range []string{"a", "a b", "a,b", "ü", "a/b", "A"} {
		for _, composite := range []string{"shop", "shop-a", "a-very-long-name-that-is-as-long-as-a-name-of-a-composite-may-be"} {
			instance := instanceOf()
			instance.SetName(composite)
			s := &compositeState{facts: plan.Facts{Instance: instance}}
			o := part("ConfigMap", "prod", "", resource)
			name := s.generateName(resource, o, nil, xrd.ComposedRef{})
			if s.generateName(resource, o, nil, xrd.ComposedRef{}) != name {
				t.Errorf("%s of %s has two names", resource, composite)
			}
			if len(name) > 63 {
				t.Errorf("%s is too long", name)
			}
			key := fmt.Sprintf("%s of %s", resource, composite)
			if other, taken := seen[name]; taken {
				t.Errorf("%s and %s are both %s", key, other, name)
			}
			seen[name] = key
		}
	}
}

func TestAPipelineComposesWithinTheLimitOfObjects(t *testing.T) {
	cases := map[string]struct {
		copies  int
		problem plan.Reason
		nodes   int
		exceeds []plan.Limit
	}{
		"As many as are allowed": {2, "", 2, nil},
		"One more":               {3, plan.LimitExceeded, 0, []plan.Limit{plan.ObjectsLimit}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runner := &recorder{wants: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, copies: tc.copies}
			facts := plan.Facts{Instance: instanceOf(), Limits: plan.Limits{Objects: 2}}
			desired, err := instance.ComposeReading(t.Context(), composer(runner), facts, contents{}.read)
			if err != nil {
				t.Fatal(err)
			}
			if desired.Problem.Reason != tc.problem || len(desired.Nodes) != tc.nodes || !slices.Equal(desired.Exceeded, tc.exceeds) {
				t.Errorf("got %d nodes, exceeded %v, problem %v", len(desired.Nodes), desired.Exceeded, desired.Problem)
			}
		})
	}
}
