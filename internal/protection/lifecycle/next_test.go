package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
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
metadata: {name: u, namespace: prod, uid: u-1}
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

func ofNamed(o *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(o.Object, "used", "spec", "of", "resourceRef", "name")
}

func ofOther(o *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(o.Object, "data", "spec", "of", "resourceRef", "namespace")
}

func controlled(by types.UID) change {
	return func(o *unstructured.Unstructured) {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x/v1", Kind: "App", Name: "app", UID: by, Controller: &yes}})
	}
}

func partOf(set string) change {
	return func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": set})
	}
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

func used(with ...change) lifecycle.Lookup {
	return lifecycle.Lookup{Object: object1("ConfigMap", "used", "of-1", with...)}
}

func using(with ...change) lifecycle.Lookup {
	return lifecycle.Lookup{Object: object1("Deployment", "using", "by-1", with...)}
}

func TestNext(t *testing.T) {
	const selecting = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchLabels: {a: b}}}
  by: {apiVersion: apps/v1, kind: Deployment, resourceSelector: {matchControllerRef: true}}
`
	const clusterwide = `
apiVersion: protection.crossplane.io/v1beta1
kind: ClusterUsage
metadata: {name: u}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {namespace: prod, matchLabels: {a: b}}}
  reason: it is needed
`
	refused := &lifecycle.Refused{UID: "of-1", Policy: "Foreground", User: "alice"}
	const others = "spec.of is in namespace data: a Usage protects objects of its own namespace only; create a Usage in that namespace"
	changes := func(path ...string) func(lifecycle.Step) any {
		return func(s lifecycle.Step) any {
			v, _, _ := unstructured.NestedFieldNoCopy(s.Change, path...)
			return v
		}
	}
	message := func(s lifecycle.Step) any { return s.Ready.Reason + ": " + s.Ready.Message }
	policy := func(s lifecycle.Step) any { return string(s.Policy) }
	nothing := func(s lifecycle.Step) any { return s.Ready.Reason }
	progress := func(s lifecycle.Step) any {
		set := condition.Set(nil).MarkProgress(s.Progress(), s.Ready.ObservedGeneration, time.Unix(1, 0))
		if len(set) == 0 {
			return ""
		}
		return fmt.Sprintf("%s at %d", set[0].Type, set[0].ObservedGeneration)
	}
	cases := map[string]struct {
		reason string
		text   string
		with   []change
		facts  lifecycle.Facts
		// relation is what is found out about the used and the using object.
		relation usage.Relation
		do       lifecycle.Do
		look     func(lifecycle.Step) any
		want     any
	}{
		"A selector is resolved": {
			reason: "once, to what it finds first", text: selecting, facts: lifecycle.Facts{OfSelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{object1("ConfigMap", "used", "of-1")}}},
			do: lifecycle.PatchUsage, look: changes("spec", "of", "resourceRef"), want: map[string]any{"name": "used"},
		},
		"With its namespace where the usage has none": {
			reason: "the name alone identifies nothing", text: clusterwide, facts: lifecycle.Facts{OfSelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{object1("ConfigMap", "used", "of-1")}}},
			do: lifecycle.PatchUsage, look: changes("spec", "of", "resourceRef"), want: map[string]any{"name": "used", "namespace": "prod"},
		},
		"Neither a selector nor a name": {
			reason: "a user must add one", text: named, with: []change{func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, "spec", "of", "resourceRef")
			}}, do: lifecycle.Finish, look: progress, want: "Stalled at 3",
		},
		"A selector of another namespace selects nothing": {
			reason: "it would tell the names of objects there", text: selecting, with: []change{func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "data", "spec", "of", "resourceSelector", "namespace")
			}}, do: lifecycle.Finish, look: message, want: "OutsideNamespace: " + others,
		},
		"An object of another namespace is not protected": {
			reason: "who may create usages here has no say there", text: named, with: []change{ofOther}, do: lifecycle.Finish, look: message, want: "OutsideNamespace: " + others,
		},
		"nor is a cluster-scoped one": {
			reason: "the same", text: named, facts: lifecycle.Facts{OfClusterScoped: true}, do: lifecycle.Finish, look: message,
			want: "OutsideNamespace: spec.of has the kind ConfigMap, which is cluster-scoped: a Usage protects objects of its own namespace only; create a ClusterUsage",
		},
		"The mark of a former release goes": {
			reason: "nobody else would take it off", text: named, with: []change{claimed, ofOther}, facts: lifecycle.Facts{Of: used(marked, tried), LastUsage: true},
			do: lifecycle.RemoveLabel, look: changes("metadata", "labels"), want: map[string]any{v1beta1.InUseLabel: nil},
		},
		"unless another usage needs it": {
			reason: "that of its own namespace", text: named, with: []change{claimed, ofOther}, facts: lifecycle.Facts{Of: used(marked)}, do: lifecycle.RemoveFinalizer,
		},
		"and then the finalizer": {
			reason: "nothing is left to do", text: named, with: []change{claimed, ofOther}, facts: lifecycle.Facts{Of: used()}, do: lifecycle.RemoveFinalizer,
		},
		"but not while usages are being read": {
			reason: "one may need the mark", text: named, with: []change{claimed, ofOther}, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: lifecycle.Syncing}}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"nor while the object can't be read": {
			reason: "it is retried, and said", text: named, with: []change{claimed, ofOther}, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: "forbidden"}}, do: lifecycle.Finish, look: message,
			want: "OutsideNamespace: " + others + "; cannot remove the in-use label, which a former release has set: forbidden",
		},
		"A deletion there is never replayed": {
			reason: "not even one that was refused", text: named, with: []change{claimed, deleting, replaying, ofOther}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.RemoveFinalizer,
		},
		"A cluster-scoped user is not looked up": {
			reason: "whether it exists is none of the namespace's business", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(marked), ByClusterScoped: true}, do: lifecycle.Finish, look: message,
			want: "OutsideNamespace: spec.by has the kind Deployment, which is cluster-scoped: a Usage names objects of its own namespace only; the used object stays protected until the Usage is deleted",
		},
		"and not waited for": {
			reason: "nobody would know its end", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(), ByClusterScoped: true, DeletedWithOwner: true}, do: lifecycle.RemoveFinalizer,
		},
		"One for siblings takes those of the same controller": {
			reason: "others have the labels as well", text: selecting, with: []change{ofNamed, controlled("app-1")},
			facts: lifecycle.Facts{Of: used(), BySelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{
				object1("Deployment", "other", "by-0", controlled("app-2")), object1("Deployment", "using", "by-1", controlled("app-1")),
			}}},
			do: lifecycle.PatchUsage, look: changes("spec", "by", "resourceRef"), want: map[string]any{"name": "using"},
		},
		"One for siblings takes those of the same instance": {
			reason: "parts of an instance may have no controller", text: selecting, with: []change{ofNamed, partOf("set-1")},
			facts: lifecycle.Facts{Of: used(), BySelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{object1("Deployment", "using", "by-1", partOf("set-1"))}}},
			do:    lifecycle.PatchUsage, look: changes("spec", "by", "resourceRef"), want: map[string]any{"name": "using"},
		},
		"and no others": {
			reason: "they may have another controller, another instance, or neither", text: selecting, with: []change{ofNamed, partOf("set-1")},
			facts: lifecycle.Facts{Of: used(), BySelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{
				object1("Deployment", "other", "by-0", partOf("set-2")), object1("Deployment", "third", "by-2", controlled("app-1")), object1("Deployment", "fourth", "by-3"),
			}}},
			do: lifecycle.Finish, look: message, want: "Unavailable: spec.by.resourceSelector matches no Deployment",
		},
		"and none without controller": {
			reason: "having none is nothing in common", text: selecting, with: []change{ofNamed, controlled("app-1")},
			facts: lifecycle.Facts{Of: used(), BySelected: lifecycle.Selected{Objects: []*unstructured.Unstructured{object1("Deployment", "other", "by-0")}}},
			do:    lifecycle.Finish, look: message, want: "Unavailable: spec.by.resourceSelector matches no Deployment",
		},
		"One whose objects can't be read is told": {
			reason: "it isn't said that there is none", text: selecting, facts: lifecycle.Facts{OfSelected: lifecycle.Selected{Unreadable: "forbidden"}},
			do: lifecycle.Finish, look: message, want: "Unavailable: spec.of.resourceSelector cannot be resolved: forbidden",
		},
		"One that finds nothing is told": {
			reason: "somebody may have misspelt it", text: selecting,
			do: lifecycle.Finish, look: message, want: "Unavailable: spec.of.resourceSelector matches no ConfigMap",
		},
		"One whose objects are being read isn't": {
			reason: "that takes a moment", text: selecting, facts: lifecycle.Facts{OfSelected: lifecycle.Selected{Unreadable: lifecycle.Syncing}}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"Without permission to read what is used, it is not claimed": {
			reason: "it protects nothing, and its deletion would wait for the permission", text: named, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: "forbidden"}, By: using()},
			do: lifecycle.Finish, look: message, want: "Unavailable: cannot determine whether the used object ConfigMap used exists: forbidden",
		},
		"nor while that is not known": {
			reason: "that takes a moment", text: named, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: lifecycle.Syncing}, By: using()}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"It is claimed first": {
			reason: "nothing is marked that nobody would take off", text: named, facts: lifecycle.Facts{Of: used(), By: using()},
			do: lifecycle.PatchUsage, look: changes("metadata", "finalizers"), want: []string{v1beta1.Finalizer},
		},
		"It goes with who uses it": {
			reason: "the garbage collector sees to that, and so do we", text: named, facts: lifecycle.Facts{Of: used(), By: using()},
			do: lifecycle.PatchUsage, look: changes("metadata", "ownerReferences"), want: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "using", UID: "by-1"}},
		},
		"What is used is marked": {
			reason: "so that the API server asks", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(), By: using()},
			do: lifecycle.AddLabel, look: changes("metadata", "labels", v1beta1.InUseLabel), want: "true",
		},
		"Then it is available": {
			reason: "all is done", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(marked), By: using()}, do: lifecycle.Finish, look: message, want: "Available: ",
		},
		"and needs nothing": {
			reason: "no condition says otherwise", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(marked), By: using()}, do: lifecycle.Finish, look: progress, want: "",
		},
		"What isn't there is told": {
			reason: "it may come", text: named, with: []change{claimed}, facts: lifecycle.Facts{By: using()},
			do: lifecycle.Finish, look: message, want: "Unavailable: the used object ConfigMap used does not exist",
		},
		"and waited for": {
			reason: "no action of a user is needed", text: named, with: []change{claimed}, facts: lifecycle.Facts{By: using()}, do: lifecycle.Finish, look: progress, want: "Reconciling at 3",
		},
		"It is removed when who used it has gone": {
			reason: "it is of no use", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(marked)}, do: lifecycle.DeleteUsage,
		},
		"also when who uses it contains what is used": {
			reason: "the deletion of the one would wait for that of the other", text: named, with: []change{claimed}, relation: usage.UserIsAncestor, facts: lifecycle.Facts{Of: used(marked), By: using()}, do: lifecycle.DeleteUsage,
		},
		"also when the garbage collector has noticed": {
			reason: "it takes off a reference to an owner that is gone, if the usage has another", text: named,
			with: []change{claimed, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }}, facts: lifecycle.Facts{Of: used(marked)}, do: lifecycle.DeleteUsage,
		},
		"but not when another is named": {
			reason: "it is to be claimed by that", text: named,
			with: []change{claimed, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "other", "spec", "by", "resourceRef", "name")
			}}, facts: lifecycle.Facts{Of: used(marked), By: using(func(o *unstructured.Unstructured) { o.SetName("other"); o.SetUID("by-2") })},
			do: lifecycle.PatchUsage, look: changes("metadata", "annotations", v1beta1.UserAnnotation), want: "Deployment.apps/other/by-2",
		},
		"or another has the name": {
			reason: "the garbage collector would remove it", text: named, with: []change{claimed},
			facts: lifecycle.Facts{Of: used(marked), By: using(func(o *unstructured.Unstructured) { o.SetUID("by-2") })}, do: lifecycle.DeleteUsage,
		},
		"but not while that can't be told": {
			reason: "nothing follows", text: named, with: []change{claimed}, facts: lifecycle.Facts{Of: used(marked), By: lifecycle.Lookup{Unreadable: "forbidden"}},
			do: lifecycle.Finish, look: message, want: "Unavailable: cannot determine whether the using object Deployment using exists: forbidden",
		},
		"Deleted with its composite it stays until who uses it has gone": {
			reason: "the order is what it is there for", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: using(), DeletedWithOwner: true},
			do: lifecycle.Finish, look: message, want: "Deleting: the usage waits until Deployment using is deleted, which uses ConfigMap used",
		},
		"and needs nothing meanwhile": {
			reason: "it is being deleted", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: using(), DeletedWithOwner: true}, do: lifecycle.Finish, look: progress, want: "",
		},
		"also while that can't be told": {
			reason: "the user may exist", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: lifecycle.Lookup{Unreadable: "forbidden"}, DeletedWithOwner: true},
			do: lifecycle.Finish, look: nothing, want: lifecycle.Deleting,
		},
		"but not if who uses it contains what is used": {
			reason: "the user is deleted last", text: named, with: []change{claimed, deleting}, relation: usage.UserIsAncestor, facts: lifecycle.Facts{Of: used(marked), By: using(), DeletedWithOwner: true}, do: lifecycle.RemoveFinalizer,
		},
		"While caches are being read it stays": {
			reason: "what is used may be marked", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: lifecycle.Syncing}, By: using()}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"whichever": {
			reason: "the user may exist", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: lifecycle.Lookup{Unreadable: lifecycle.Syncing}, DeletedWithOwner: true}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"While what is used can't be read it stays": {
			reason: "nobody else would take the mark off", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: lifecycle.Lookup{Unreadable: "forbidden"}},
			do: lifecycle.Finish, look: message, want: "Deleting: cannot remove the in-use label of ConfigMap used, which cannot be read: forbidden",
		},
		"Without our finalizer nothing is done": {
			reason: "another controller keeps it, and the next usage may be marking", text: named, with: []change{deleting}, facts: lifecycle.Facts{Of: used(marked), LastUsage: true}, do: lifecycle.Finish, look: nothing, want: "",
		},
		"Deleted by somebody it goes": {
			reason: "they know", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: using(), LastUsage: true}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "labels"), want: map[string]any{v1beta1.InUseLabel: nil},
		},
		"and leaves the mark to others": {
			reason: "they are still there", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(marked), By: using()}, do: lifecycle.RemoveFinalizer,
		},
		"A circle is broken": {
			reason: "each would wait for the other", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(), By: using(), DeletedWithOwner: true, Circular: true}, do: lifecycle.RemoveFinalizer,
		},
		"A deletion that was refused is forgotten": {
			reason: "much later somebody else's usage may want it replayed", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "annotations"), want: map[string]any{v1beta1.DeletionAttemptAnnotation: nil},
		},
		"with its record": {
			reason: "the same", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{Of: used(), LastUsage: true, Refused: refused}, do: lifecycle.ForgetRefused,
		},
		"or made again, after the mark is off": {
			reason: "the webhook would refuse it again", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(marked, tried), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "annotations"), want: nil,
		},
		"with the policy that was asked for": {
			reason: "it is the same deletion", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.Replay, look: policy, want: "Foreground",
		},
		"also if dependents are to stay": {
			reason: "otherwise they would be deleted", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: &lifecycle.Refused{UID: "of-1", Policy: "Orphan"}, MayDelete: true}, do: lifecycle.Replay, look: policy, want: "Orphan",
		},
		"in the background if none was": {
			reason: "the API server would orphan dependents of some kinds", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: &lifecycle.Refused{UID: "of-1"}, MayDelete: true}, do: lifecycle.Replay, look: policy, want: "Background",
		},
		"and not if it is being deleted": {
			reason: "somebody was faster", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried, deleting), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.ForgetRefused,
		},
		"but not while others use it": {
			reason: "it would be refused", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(marked, tried)}, do: lifecycle.RemoveFinalizer,
		},
		"and not if nobody has tried": {
			reason: "nobody wants it gone", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(), LastUsage: true}, do: lifecycle.RemoveFinalizer,
		},
		"nor if only the annotation says so": {
			reason: "who may write the object can write that", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, MayDelete: true}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "annotations"), want: map[string]any{v1beta1.DeletionAttemptAnnotation: nil},
		},
		"nor if another incarnation was meant": {
			reason: "this one was created since", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: &lifecycle.Refused{UID: "of-0"}, MayDelete: true}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "annotations"), want: map[string]any{v1beta1.DeletionAttemptAnnotation: nil},
		},
		"nor if the user may no longer delete it": {
			reason: "it is the user's deletion", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: refused}, do: lifecycle.RemoveLabel,
			look: changes("metadata", "annotations"), want: map[string]any{v1beta1.DeletionAttemptAnnotation: nil},
		},
		"nor if the annotation was removed": {
			reason: "that cancels it", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(), LastUsage: true, Refused: refused, MayDelete: true}, do: lifecycle.ForgetRefused,
		},
		"and once": {
			reason: "it was made", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Replayed: true}, do: lifecycle.RemoveFinalizer,
		},
		"The record goes after the deletion": {
			reason: "a crash repeats the deletion", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Of: used(tried), LastUsage: true, Refused: refused, MayDelete: true, Replayed: true}, do: lifecycle.ForgetRefused,
		},
		"also if the object has gone": {
			reason: "nothing is left to delete", text: named, with: []change{claimed, deleting, replaying}, facts: lifecycle.Facts{Refused: refused}, do: lifecycle.ForgetRefused,
		},
		"Of an object that has gone it goes": {
			reason: "there is no mark to take off", text: named, with: []change{claimed, deleting}, facts: lifecycle.Facts{LastUsage: true}, do: lifecycle.RemoveFinalizer,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.Usage = read(t, tc.text)
			f.Usage.SetGeneration(3)
			for _, c := range tc.with {
				c(f.Usage)
			}
			f.Use, _ = usage.Read(f.Usage)
			f.Use.Relation = tc.relation
			step := lifecycle.Next(f)
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
