package usage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/usage"
)

func read(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

type change = func(*unstructured.Unstructured)

const named = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: u-1, generation: 3}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: apps/v1, kind: Deployment, resourceRef: {name: using}}
`

// claimed is the usage once it carries what it is to.
func claimed(o *unstructured.Unstructured) {
	o.SetFinalizers([]string{v1beta1.Finalizer})
	o.SetAnnotations(map[string]string{v1beta1.DetailsAnnotation: "Deployment/using uses ConfigMap/used", v1beta1.UserAnnotation: "Deployment.apps/using/by-1"})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "using", UID: "by-1"}})
}

func deleting(o *unstructured.Unstructured) {
	at := metav1.Unix(1, 0)
	o.SetDeletionTimestamp(&at)
}

func replaying(o *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(o.Object, true, "spec", "replayDeletion")
}

func marked(o *unstructured.Unstructured) { o.SetLabels(map[string]string{v1beta1.InUseLabel: "true"}) }

func tried(o *unstructured.Unstructured) {
	o.SetAnnotations(map[string]string{v1beta1.DeletionAttemptAnnotation: "Foreground"})
}

func object1(kind, name string, uid types.UID, with ...change) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("v1")
	if kind == "Deployment" {
		o.SetAPIVersion("apps/v1")
	}
	o.SetKind(kind)
	o.SetNamespace("prod")
	o.SetName(name)
	o.SetUID(uid)
	for _, f := range with {
		f(o)
	}
	return o
}

func used(with ...change) usage.Look {
	return usage.Look{Object: object1("ConfigMap", "used", "of-1", with...)}
}

func using(with ...change) usage.Look {
	return usage.Look{Object: object1("Deployment", "using", "by-1", with...)}
}

func TestNext(t *testing.T) {
	const selecting = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {namespace: data, matchLabels: {a: b}}}
  by: {apiVersion: apps/v1, kind: Deployment, resourceSelector: {matchControllerRef: true}}
`
	elsewhere := object1("ConfigMap", "used", "of-1")
	elsewhere.SetNamespace("data")
	changes := func(path ...string) func(usage.Step) any {
		return func(s usage.Step) any {
			v, _, _ := unstructured.NestedFieldNoCopy(s.Change, path...)
			return v
		}
	}
	message := func(s usage.Step) any { return s.Ready.Reason + ": " + s.Ready.Message }
	policy := func(s usage.Step) any { return string(s.Policy) }
	nothing := func(s usage.Step) any { return s.Ready.Reason }
	cases := map[string]struct {
		reason string
		text   string
		with   []change
		facts  usage.Facts
		do     usage.Do
		look   func(usage.Step) any
		want   any
	}{
		"A selector is resolved": {
			reason: "once, to what it finds first", text: selecting, facts: usage.Facts{OfSelected: usage.Looked{Objects: []*unstructured.Unstructured{elsewhere}}},
			do: usage.Write, look: changes("spec", "of", "resourceRef"), want: map[string]any{"name": "used", "namespace": "data"},
		},
		"One that finds nothing is told": {
			reason: "somebody may have misspelt it", text: selecting,
			do: usage.Rest, look: message, want: "Unavailable: spec.of.resourceSelector matches no ConfigMap",
		},
		"One whose objects are being read isn't": {
			reason: "that takes a moment", text: selecting, facts: usage.Facts{OfSelected: usage.Looked{Unknown: usage.Reading}}, do: usage.Rest, look: nothing, want: "",
		},
		"It is claimed first": {
			reason: "nothing is marked that nobody would take off", text: named, facts: usage.Facts{Of: used(), By: using()},
			do: usage.Write, look: changes("metadata", "finalizers"), want: []string{v1beta1.Finalizer},
		},
		"It goes with who uses it": {
			reason: "the garbage collector sees to that, and so do we", text: named, facts: usage.Facts{Of: used(), By: using()},
			do: usage.Write, look: changes("metadata", "ownerReferences"), want: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "using", UID: "by-1"}},
		},
		"What is used is marked": {
			reason: "so that the API server asks", text: named, with: []change{claimed}, facts: usage.Facts{Of: used(), By: using()},
			do: usage.Mark, look: changes("metadata", "labels", v1beta1.InUseLabel), want: "true",
		},
		"Then it is available": {
			reason: "all is done", text: named, with: []change{claimed}, facts: usage.Facts{Of: used(marked), By: using()}, do: usage.Rest, look: message, want: "Available: ",
		},
		"What isn't there is told": {
			reason: "it may come", text: named, with: []change{claimed}, facts: usage.Facts{By: using()},
			do: usage.Rest, look: message, want: "Unavailable: there is no ConfigMap used, which is used",
		},
		"It is removed when who used it has gone": {
			reason: "it is of no use", text: named, with: []change{claimed}, facts: usage.Facts{Of: used(marked)}, do: usage.Remove,
		},
		"also when the garbage collector has noticed": {
			reason: "it takes off a reference to an owner that is gone, if the usage has another", text: named,
			with: []change{claimed, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }}, facts: usage.Facts{Of: used(marked)}, do: usage.Remove,
		},
		"but not when another is named": {
			reason: "it is to be claimed by that", text: named,
			with: []change{claimed, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "other", "spec", "by", "resourceRef", "name")
			}}, facts: usage.Facts{Of: used(marked), By: using(func(o *unstructured.Unstructured) { o.SetName("other"); o.SetUID("by-2") })},
			do: usage.Write, look: changes("metadata", "annotations", v1beta1.UserAnnotation), want: "Deployment.apps/other/by-2",
		},
		"or another has the name": {
			reason: "the garbage collector would remove it", text: named, with: []change{claimed},
			facts: usage.Facts{Of: used(marked), By: using(func(o *unstructured.Unstructured) { o.SetUID("by-2") })}, do: usage.Remove,
		},
		"but not while that can't be told": {
			reason: "nothing follows", text: named, with: []change{claimed}, facts: usage.Facts{Of: used(marked), By: usage.Look{Unknown: "forbidden"}},
			do: usage.Rest, look: message, want: "Unavailable: it can't be told whether there is Deployment using, which uses ConfigMap used: forbidden",
		},
		"Deleted with its composite it stays until who uses it has gone": {
			reason: "the order is what it is there for", text: named, with: []change{claimed, deleting}, facts: usage.Facts{Of: used(marked), By: using(), Together: true},
			do: usage.Rest, look: message, want: "Deleting: it stays until Deployment using has gone, which uses ConfigMap used",
		},
		"Deleted by somebody it goes": {
			reason: "they know", text: named, with: []change{claimed, deleting}, facts: usage.Facts{Of: used(marked), By: using(), Last: true}, do: usage.Unmark,
			look: changes("metadata", "labels"), want: map[string]any{v1beta1.InUseLabel: nil},
		},
		"and leaves the mark to others": {
			reason: "they are still there", text: named, with: []change{claimed, deleting}, facts: usage.Facts{Of: used(marked), By: using()}, do: usage.Release,
		},
		"A circle is broken": {
			reason: "each would wait for the other", text: named, with: []change{claimed, deleting}, facts: usage.Facts{Of: used(), By: using(), Together: true, Circular: true}, do: usage.Release,
		},
		"A deletion that was refused is forgotten": {
			reason: "much later somebody else's usage may want it replayed", text: named, with: []change{claimed, deleting}, facts: usage.Facts{Of: used(tried), Last: true}, do: usage.Unmark,
			look: changes("metadata", "annotations"), want: map[string]any{v1beta1.DeletionAttemptAnnotation: nil},
		},
		"or made again, after the mark is off": {
			reason: "the webhook would refuse it again", text: named, with: []change{claimed, deleting, replaying}, facts: usage.Facts{Of: used(marked, tried), Last: true}, do: usage.Unmark,
			look: changes("metadata", "annotations"), want: nil,
		},
		"with the policy that was asked for": {
			reason: "it is the same deletion", text: named, with: []change{claimed, deleting, replaying}, facts: usage.Facts{Of: used(tried), Last: true}, do: usage.Replay, look: policy, want: "Foreground",
		},
		"but not while others use it": {
			reason: "it would be refused", text: named, with: []change{claimed, deleting, replaying}, facts: usage.Facts{Of: used(marked, tried)}, do: usage.Release,
		},
		"and not if nobody has tried": {
			reason: "nobody wants it gone", text: named, with: []change{claimed, deleting, replaying}, facts: usage.Facts{Of: used(), Last: true}, do: usage.Release,
		},
		"and once": {
			reason: "it was made", text: named, with: []change{claimed, deleting, replaying}, facts: usage.Facts{Of: used(tried), Last: true, Replayed: true}, do: usage.Release,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.Usage = read(t, tc.text)
			for _, c := range tc.with {
				c(f.Usage)
			}
			f.Use, _ = usage.Read(f.Usage)
			step := usage.Next(f)
			if step.Do != tc.do {
				t.Fatalf("%s: it does %s, not %s: %+v", tc.reason, step.Do, tc.do, step)
			}
			if tc.look == nil {
				return
			}
			if diff := cmp.Diff(tc.want, tc.look(step)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWhatCantBeReadKeepsNothing(t *testing.T) {
	for name, text := range map[string]string{
		"another kind": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"nonsense":     "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: a}, spec: {of: 3}}",
	} {
		if u, ok := usage.Read(read(t, text)); ok {
			t.Errorf("%s is read as %+v", name, u)
		}
	}
	u, ok := usage.Read(read(t, "{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: a}}"))
	if !ok || u.Of.Is(object.Key{}) {
		t.Errorf("one that names nothing is of everything: %+v", u)
	}
}

func TestANameMeansAKindWithNamespacesOrWithout(t *testing.T) {
	u, _ := usage.Read(read(t, named))
	for key, want := range map[object.Key]bool{
		{Kind: "ConfigMap", Namespace: "prod", Name: "used"}:             true,
		{Kind: "ConfigMap", Name: "used"}:                                true,
		{Kind: "ConfigMap", Namespace: "dev", Name: "used"}:              false,
		{Kind: "ConfigMap", Namespace: "prod", Name: "other"}:            false,
		{Group: "x", Kind: "ConfigMap", Namespace: "prod", Name: "used"}: false,
	} {
		if got := u.Of.Is(key); got != want {
			t.Errorf("%s: %t", key, got)
		}
	}
}

func TestMessageTellsFirstWhatSomebodyHasToSeeTo(t *testing.T) {
	u, _ := usage.Read(read(t, named))
	going := u
	going.Deleting, going.Usage.Name = true, "a"
	alone := u
	alone.By, alone.Reason, alone.Usage.Name = nil, "the ledger", "z"
	want := "in use: the ledger (Usage prod/z) and 2 more; it goes when the usage has gone"
	if got := usage.Message([]usage.Use{going, u, alone}); got != want {
		t.Errorf("got %q", got)
	}
}
