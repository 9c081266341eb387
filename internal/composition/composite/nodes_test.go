package composite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

const (
	configMap = "{apiVersion: v1, kind: ConfigMap}"
	yes       = fnv1.Ready_READY_TRUE
)

// TestNamesFollowFromNames is of objects that nobody names.
func TestNamesFollowFromNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	seen := map[string]string{}
	for _, tc := range []struct{ namespace, composite, resource, object, prefix string }{
		{"a", "x", "db", configMap, "x-"},
		{"a", "x", "DB", configMap, "x-"},
		{"a", "x", "front end", configMap, "x-"},
		{"b", "x", "db", configMap, "x-"},
		{"", "x", "db", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: a}}", "x-"},
		{"a", "y", "db", configMap, "y-"},
		{"a", "z", "db", "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: Some-}}", "some-"},
		{"a", long + "1", "db", configMap, long[:51]},
		{"a", long + "2", "db", configMap, long[:51]},
		{"a", strings.Repeat("b", 253), "db", configMap, strings.Repeat("b", 51)},
	} {
		who := fmt.Sprint(tc.namespace, "/", tc.composite, " ", tc.resource)
		f := begin(tc.namespace, tc.composite)
		f.wants(tc.resource, tc.object, yes)
		name := f.node(t).Object.GetName()
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s: %s: %v", who, name, problems)
		}
		if !strings.HasPrefix(name, tc.prefix) {
			t.Errorf("%s: %s doesn't begin with %s", who, name, tc.prefix)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s have the name %s", who, other, name)
		}
		seen[name] = who
		f.composer.Memories, f.facts.Instance = &composite.Memories{}, f.facts.Instance.DeepCopy()
		f.facts.Instance.SetUID("another")
		if again := f.node(t).Object.GetName(); again != name {
			t.Errorf("%s is %s, and later %s", who, name, again)
		}
	}
}

// TestAnExistingObjectIsAdoptedOnlyByPermission is of existing objects that have no owner.
func TestAnExistingObjectIsAdoptedOnlyByPermission(t *testing.T) {
	const annotated = "metadata: {name: chosen, annotations: {espalier.dev/adopt: %s}}}"
	cases := map[string]struct {
		wants  string
		adopts bool
	}{
		"not by itself":                           {wants: "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen}}"},
		"if the composition says so":              {wants: "{apiVersion: v1, kind: ConfigMap, " + fmt.Sprintf(annotated, "IfUnowned"), adopts: true},
		"not by the value for external resources": {wants: "{apiVersion: v1, kind: ConfigMap, " + fmt.Sprintf(annotated, "IfUnmarked")},
		"never a CustomResourceDefinition":        {wants: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, " + fmt.Sprintf(annotated, "IfUnowned")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("", "x")
			f.wants("db", tc.wants, yes)
			if got := f.node(t).AdoptUnowned; got != tc.adopts {
				t.Errorf("adopts: %t, want %t", got, tc.adopts)
			}
		})
	}
}

func TestGenerateNameIsSet(t *testing.T) {
	const (
		named    = "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen}}"
		prefixed = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: Some-}}"
		both     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen, generateName: some-}}"
	)
	cases := map[string]struct{ wants, has, want string }{
		"of an object that nobody names":                               {wants: configMap, want: "x-"},
		"of one that a function names":                                 {wants: named, want: ""},
		"as a function gives it":                                       {wants: prefixed, want: "some-"},
		"as a function gives it beside a name":                         {wants: both, want: "some-"},
		"as another implementation has made it":                        {wants: configMap, has: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-abcde, generateName: x-}}", want: "x-"},
		"but not where the object was made without":                    {wants: configMap, has: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-abcde}}", want: ""},
		"and stays as it was when a function gives another":            {wants: prefixed, has: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-abcde, generateName: x-}}", want: "x-"},
		"and stays where a function gives the name that was generated": {wants: named, has: "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen, generateName: cho}}", want: "cho"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("a", "x")
			f.wants("db", tc.wants, yes)
			if tc.has != "" {
				f.has("db", tc.has)
			}
			if got := f.node(t).Object.GetGenerateName(); got != tc.want {
				t.Errorf("it is %q, and not %q", got, tc.want)
			}
		})
	}
}

func TestWhatHasANameKeepsIt(t *testing.T) {
	cases := map[string]struct {
		wants string
		has   []string
		refer []xrd.ComposedRef
		want  string
		there bool
	}{
		"what is there": {
			wants: configMap, has: []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: x-abcde}}"}, want: "x-abcde", there: true,
		},
		"what is referred to and not there yet": {
			wants: configMap, refer: []xrd.ComposedRef{{APIVersion: "v1", Kind: "ConfigMap", Name: "x-abcde", ResourceName: "db"}}, want: "x-abcde",
		},
		"what functions name": {
			wants: "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen}}", has: []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: x-abcde}}"}, want: "chosen",
		},
		"what functions name, of two": {
			wants: "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen}}",
			has:   []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: chosen}}"},
			want:  "chosen", there: true,
		},
		"what is of the kind that is wanted, of two": {
			wants: "{apiVersion: v1, kind: Secret}",
			has:   []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: x-one}}", "{apiVersion: v1, kind: Secret, metadata: {name: x-two}}"},
			want:  "x-two", there: true,
		},
		"what stays, of two": {
			wants: configMap,
			has: []string{
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: x-going, deletionTimestamp: '2026-01-01T00:00:00Z'}}",
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: x-staying}}",
			},
			want: "x-staying", there: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("a", "x")
			f.wants("db", tc.wants, yes)
			for _, o := range tc.has {
				f.has("db", o)
			}
			f.refers(tc.refer...)
			node := f.node(t)
			if node.Object.GetName() != tc.want || (node.Observed != nil) != tc.there {
				t.Errorf("it is %s, there: %t", node.Object.GetName(), node.Observed != nil)
			}
			if node.Observed != nil && node.Observed.GetName() != tc.want {
				t.Errorf("it is taken for %s", node.Observed.GetName())
			}
		})
	}
}

func TestEverythingIsInItsNamespace(t *testing.T) {
	cases := map[string]struct {
		composite, object string
		want              string
		refused           string
	}{
		"that of the composite":                                  {composite: "a", object: configMap, want: "a"},
		"that of the composite, whatever functions say":          {composite: "a", object: "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: b}}", want: "a"},
		"that of the composite, as long as the kind isn't there": {composite: "a", object: "{apiVersion: v1, kind: Unknown}", want: "a"},
		"none for what is in none":                               {object: "{apiVersion: v1, kind: Namespace, metadata: {namespace: b}}"},
		"the one that functions say":                             {object: "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: b}}", want: "b"},
		"none that anybody says":                                 {object: configMap, refused: "metadata.namespace"},
		"none, in a composite of a namespace":                    {composite: "a", object: "{apiVersion: v1, kind: Namespace}", refused: "cluster-scoped"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin(tc.composite, "x")
			f.wants("it", tc.object, yes)
			node := f.node(t)
			if tc.refused != "" {
				if node.Refusal.Reason != plan.Rejected || !strings.Contains(node.Refusal.Message, tc.refused) {
					t.Errorf("it is refused: %+v", node.Refusal)
				}
				return
			}
			if node.Refusal.Reason != "" || node.Object.GetNamespace() != tc.want {
				t.Errorf("it is in %q, refused: %+v", node.Object.GetNamespace(), node.Refusal)
			}
		})
	}
}

func TestReadinessIsOfTheGenerationThatThereIs(t *testing.T) {
	const leaf = "{apiVersion: example.com/v1, kind: Leaf, metadata: {name: x-leaf"
	cases := map[string]struct {
		has  string
		says fnv1.Ready
		why  string // empty for ready
	}{
		"a function says so":               {has: leaf + "}}", says: yes},
		"nobody says so":                   {has: leaf + "}}", why: "no function"},
		"a function says so of what goes":  {has: leaf + ", deletionTimestamp: '2026-01-01T00:00:00Z'}}", says: yes, why: "being deleted"},
		"its status is of an older one":    {has: leaf + ", generation: 3}, status: {observedGeneration: 2}}", says: yes, why: "older generation than 3"},
		"its status is of this one":        {has: leaf + ", generation: 3}, status: {observedGeneration: 3}}", says: yes},
		"its condition is of an older one": {has: leaf + ", generation: 3}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}}", says: yes, why: "older generation than 3"},
		"its condition is of no one":       {has: leaf + ", generation: 3}, status: {conditions: [{type: Ready, status: 'True'}]}}", says: yes},
		"its change could not be made":     {has: leaf + ", generation: 3}, status: {observedGeneration: 3, conditions: [{type: Ready, status: 'True', observedGeneration: 2}, {type: Synced, status: 'False', reason: ReconcileError, message: quota}]}}", says: yes, why: "leaf: ReconcileError: quota"},
		"its change is being made":         {has: leaf + ", generation: 3}, status: {observedGeneration: 3, conditions: [{type: Ready, status: 'True', observedGeneration: 2}, {type: Synced, status: Unknown, reason: OperationInProgress, message: updating}]}}", says: yes, why: "leaf: OperationInProgress: updating"},
		"it cannot be observed any more":   {has: leaf + ", generation: 3}, status: {observedGeneration: 3, conditions: [{type: Ready, status: 'True', observedGeneration: 3}, {type: Synced, status: 'False', reason: ReconcileError, message: quota}]}}", says: yes},
		"it complains":                     {has: leaf + "}, status: {conditions: [{type: Synced, status: 'False', reason: ReconcileError, message: quota}]}}", why: "ReconcileError: quota"},
		"it says why":                      {has: leaf + "}, status: {conditions: [{type: Ready, status: 'False', reason: Creating, message: slowly}]}}", why: "slowly"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("a", "x")
			f.wants("leaf", "{apiVersion: example.com/v1, kind: Leaf}", tc.says)
			f.has("leaf", tc.has)
			node := f.node(t)
			if node.Ready != (tc.why == "") || !strings.Contains(node.Unready.Message, tc.why) {
				t.Errorf("ready: %t, %s", node.Ready, node.Unready.Message)
			}
		})
	}
}

// TestReferencesHaveAnOrder has what is wanted and what is there still, whichever way functions
// tell of it.
func TestReferencesHaveAnOrder(t *testing.T) {
	f := begin("a", "x")
	f.wants("z", "{apiVersion: v1, kind: Secret, metadata: {name: one}}", yes)
	f.wants("a", "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}", yes)
	f.wants("m", "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}", yes)
	f.wants("n", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}", yes)
	f.wants("refused", "{apiVersion: v1, kind: Namespace, metadata: {name: out}}", yes)
	f.has("former", "{apiVersion: v1, kind: ConfigMap, metadata: {name: former}}")
	f.has("m", "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}")
	for range 5 {
		desired := f.compose(t)
		if desired.Problem.Reason != "" {
			t.Fatal(desired.Problem)
		}
		var got []string
		for _, field := range desired.Fields {
			if field.Path[len(field.Path)-1] != "resourceRefs" {
				continue
			}
			for _, ref := range field.Value.([]any) {
				m := ref.(map[string]any)
				got = append(got, fmt.Sprint(m["apiVersion"], " ", m["kind"], " ", m["name"]))
			}
		}
		want := []string{"apps/v1 Deployment web", "v1 ConfigMap former", "v1 ConfigMap one", "v1 ConfigMap two", "v1 Secret one"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

func TestAFailureKeepsWhatWasWanted(t *testing.T) {
	f := begin("a", "x")
	f.facts.Instance.Object["status"] = map[string]any{"address": "here"}
	f.wants("db", configMap, yes)
	f.fails = &pipeline.CallError{Code: "Unavailable", Message: "away"}
	first := f.compose(t)
	if len(first.Nodes) > 0 || first.Problem.Reason != plan.PipelineFailed || first.Failure == nil {
		t.Errorf("before anything is known: %+v", first)
	}
	f.fails = nil
	good := f.compose(t)
	if len(good.Nodes) != 1 || good.Problem.Reason != "" {
		t.Fatalf("it is composed: %+v", good)
	}
	for name, tc := range map[string]struct {
		fails  error
		passes bool
	}{
		"a function that is away":              {&pipeline.CallError{Code: "Unavailable", Message: "away"}, true},
		"a function that nobody knows":         {&pipeline.UnknownFunctionError{Function: "f"}, false},
		"an answer that makes no sense":        {&pipeline.ResponseError{Problem: "is nonsense"}, false},
		"something that nobody has thought of": {errors.New("who knows"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f.fails = tc.fails
			f.wants("more", configMap, yes)
			got := f.compose(t)
			if got.Problem.Reason != plan.PipelineFailed || !strings.Contains(got.Problem.Message, `step "only"`) {
				t.Errorf("it says %+v", got.Problem)
			}
			if len(got.Nodes) != 1 || got.Nodes[0].ID != "db" || got.Nodes[0].Object.GetName() != good.Nodes[0].Object.GetName() {
				t.Errorf("it wants %v", got.Nodes)
			}
			if got.Status["address"] != "here" {
				t.Errorf("its status is %v", got.Status)
			}
			if tc.passes != (got.Failure != nil) {
				t.Errorf("it is tried again: %t", got.Failure != nil)
			}
			if got.Failure == nil && got.RequeueAfter == 0 {
				t.Error("it is never run again")
			}
		})
	}
}

func TestWithoutACompositionEverythingStays(t *testing.T) {
	f := begin("a", "x")
	f.wants("db", configMap, yes)
	f.compose(t)
	without := *f.composer
	without.Compositions = nil
	f.composer = &without
	if got := f.compose(t); got.Problem.Reason != plan.CompositionMissing || len(got.Nodes) != 1 {
		t.Errorf("it wants %v: %+v", got.Nodes, got.Problem)
	}
}

// TestAnotherNamespaceIsReported for as long as the composition names it, although a function returns the observed namespace later.
func TestAnotherNamespaceIsReported(t *testing.T) {
	const elsewhere = "{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg, namespace: kube-system}}"
	want := []plan.Result{{Warning: true, Reason: "NamespaceIgnored", Message: "db: ConfigMap cfg is composed in namespace a, not in kube-system, " +
		"which the composition names: a namespaced composite composes objects in its own namespace only"}}
	results := func(f *fixture) []plan.Result { return f.compose(t).Results }

	f := begin("a", "x")
	f.wants("db", elsewhere, yes)
	if diff := cmp.Diff(want, results(f)); diff != "" {
		t.Errorf("before it exists (-want +got):\n%s", diff)
	}
	f.has("db", "{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg, namespace: a}}")
	f.wants("db", "{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg, namespace: a}}", yes)
	if diff := cmp.Diff(want, results(f)); diff != "" {
		t.Errorf("once it exists (-want +got):\n%s", diff)
	}
	f.composer.Revisions[0].Name = "app-corrected"
	if got := results(f); len(got) > 0 {
		t.Errorf("of the next revision: %v", got)
	}
	for name, composite := range map[string]*fixture{"its own namespace": begin("kube-system", "x"), "cluster-scoped": begin("", "x")} {
		composite.wants("db", elsewhere, yes)
		if got := results(composite); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNullMetadataIsNone: the object gets its name and its marks nevertheless.
func TestNullMetadataIsNone(t *testing.T) {
	f := begin("a", "x")
	f.wants("db", "{apiVersion: v1, kind: ConfigMap, metadata: null}", yes)
	if o := f.node(t).Object; o.GetName() == "" || o.GetNamespace() != "a" {
		t.Errorf("it is %v", o.Object)
	}
}

// TestAnInvalidRevisionIsReported while an older one composes.
func TestAnInvalidRevisionIsReported(t *testing.T) {
	f := begin("a", "x")
	f.wants("db", configMap, yes)
	invalid := f.composer.Revisions[0].DeepCopy()
	invalid.Name, invalid.Spec.Revision = "app-2", 2
	invalid.Status.Conditions = []v1alpha1.Condition{{Type: v1.TypeValidPipeline, Status: "False", Reason: xrd.InvalidPipeline}}
	f.composer.Revisions = append(f.composer.Revisions, invalid)
	want := []plan.Result{{Warning: true, Reason: "InvalidPipeline", Message: "the pipeline of revision 2 (app-2) is invalid, so the composite stays at revision 1; " +
		"correct composition app: kubectl describe compositionrevision app-2"}}
	if diff := cmp.Diff(want, f.compose(t).Results); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
