package protection

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// deleted marks an object as being deleted, with the usage's finalizer or others.
func deleted(finalizers ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		now := metav1.Unix(1, 0)
		o.SetDeletionTimestamp(&now)
		o.SetFinalizers(finalizers)
	}
}

// refusedDeletion marks an object as in use, and as one whose deletion was refused.
func refusedDeletion(o *unstructured.Unstructured) {
	o.SetLabels(map[string]string{v1beta1.InUseLabel: "true"})
	o.SetAnnotations(map[string]string{v1beta1.DeletionAttemptAnnotation: "Foreground"})
}

func selecting(field, path string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(o.Object, map[string]any{"matchLabels": map[string]any{"tier": path}}, "spec", field, "resourceSelector")
		unstructured.RemoveNestedField(o.Object, "spec", field, "resourceRef")
	}
}

func TestReconcile(t *testing.T) {
	const (
		claim  = "patch Usage prod/u"
		mark   = "patch ConfigMap prod/used"
		status = "update-status Usage prod/u"
		remove = "delete Usage prod/u"

		usageOfOther = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: usage-1, generation: 2}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used, namespace: dev}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: user}}
  replayDeletion: true`
		usedByOther    = `{apiVersion: v1, kind: ConfigMap, metadata: {name: used, namespace: dev, uid: used-2, labels: {crossplane.io/in-use: "true"}, annotations: {usage.crossplane.io/deletion-attempt-with-policy: Background}}}`
		otherNamespace = "spec.of is in namespace dev: a Usage protects objects of its own namespace only; create a Usage in that namespace"
	)
	forget := "delete RefusedDeletion " + refusedName(usedKey)
	cases := map[string]struct {
		reason  string
		objects []string
		given   func(*world)
		refused string // the user whose deletion of the used object was refused
		writes  []string
		ready   string
		events  []string
	}{
		"What is used is marked after the usage is claimed": {
			reason:  "a mark without a finalizer would stay for good",
			objects: []string{used, user, usageByUser},
			writes:  []string{claim, mark, status},
			ready:   "True Available: ",
			events:  []string{"Normal UsageConfigured: the used object is protected from deletion"},
		},
		"What is used doesn't exist": {
			reason:  "the condition names it; its creation enqueues the usage",
			objects: []string{user, usageByUser},
			writes:  []string{claim, status},
			ready:   "False Unavailable: the used object ConfigMap used does not exist",
			events:  []string{"Warning Unavailable: the used object ConfigMap used does not exist"},
		},
		"What uses it doesn't exist": {
			reason:  "the object is protected all the same",
			objects: []string{used, usageByUser},
			writes:  []string{claim, mark, status},
			ready:   "False Unavailable: the using object ConfigMap user does not exist",
			events:  []string{"Warning Unavailable: the using object ConfigMap user does not exist"},
		},
		"What used it has gone": {
			reason:  "the usage goes with the incarnation that it was made for",
			objects: []string{used, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, func(o *unstructured.Unstructured) {
					o.SetAnnotations(map[string]string{v1beta1.UserAnnotation: "ConfigMap/user/user-1"})
				})
			},
			writes: []string{remove},
			ready:  "gone",
		},
		"What uses it is not in the cache": {
			reason:  "another replica has claimed the usage; the object stays protected",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, func(o *unstructured.Unstructured) {
					o.SetAnnotations(map[string]string{v1beta1.UserAnnotation: "ConfigMap/user/user-1"})
				})
				w.Uncached[userKey] = true
			},
			writes: []string{claim, mark, status},
			ready:  "True Available: ",
			events: []string{"Normal UsageConfigured: the used object is protected from deletion"},
		},
		"Selectors are resolved to names": {
			reason:  "once and for good: labels may change",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, selecting("of", "data"))
				w.Change(usageKey, selecting("by", "web"))
			},
			writes: []string{claim, claim, claim, mark, status},
			ready:  "True Available: ",
			events: []string{"Normal UsageConfigured: the used object is protected from deletion"},
		},
		"A selector matches nothing": {
			reason:  "nothing is claimed for an object that isn't known",
			objects: []string{used, user, usageByUser},
			given:   func(w *world) { w.Change(usageKey, selecting("of", "none")) },
			writes:  []string{status},
			ready:   "False Unavailable: spec.of.resourceSelector matches no ConfigMap",
			events:  []string{"Warning Unavailable: spec.of.resourceSelector matches no ConfigMap"},
		},
		"The kind of what is selected can't be read": {
			reason:  "that is said, and not that there is none",
			objects: []string{usageByUser},
			given: func(w *world) {
				w.Change(usageKey, selecting("of", "data"))
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list configmaps"}}
			},
			writes: []string{status},
			ready:  "False Unavailable: spec.of.resourceSelector cannot be resolved: cannot list configmaps",
			events: []string{"Warning Unavailable: spec.of.resourceSelector cannot be resolved: cannot list configmaps"},
		},
		"How the selected kind is served isn't known": {
			reason:  "an error of discovery isn't the absence of objects",
			objects: []string{usageByUser},
			given: func(w *world) {
				w.Change(usageKey, selecting("of", "data"))
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{Err: errors.New("discovery fails")}
			},
			writes: []string{status},
			ready:  "False Unavailable: spec.of.resourceSelector cannot be resolved: discovery fails",
			events: []string{"Warning Unavailable: spec.of.resourceSelector cannot be resolved: discovery fails"},
		},
		"A watch isn't synced": {
			reason:  "nothing follows from what isn't read; the watch enqueues the usage",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Syncing}}
			},
			ready: " : ",
		},
		"A selected kind isn't synced": {
			reason:  "as with names",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, selecting("of", "data"))
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Syncing}}
			},
			ready: " : ",
		},
		"A watch is forbidden": {
			reason:  "somebody has to grant it",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "cannot list configmaps"}}
			},
			writes: []string{status},
			ready:  "False Unavailable: cannot determine whether the used object ConfigMap used exists: cannot list configmaps",
			events: []string{"Warning Unavailable: cannot determine whether the used object ConfigMap used exists: cannot list configmaps"},
		},
		"The kind isn't served": {
			reason:  "of a kind that is gone there are no objects",
			objects: []string{usageForReason},
			given:   func(w *world) { w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{Unserved: true} },
			writes:  []string{claim, status},
			ready:   "False Unavailable: the used object ConfigMap used does not exist",
			events:  []string{"Warning Unavailable: the used object ConfigMap used does not exist"},
		},
		"A watch finds nothing at the path of a kind that is served": {
			reason:  "that may be the answer of a gateway: the object may exist, and is to stay protected",
			objects: []string{usageForReason},
			given: func(w *world) {
				w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Unavailable, Reason: watch.WaitingForKind, Message: "nothing at /api/v1/configmaps"}}
			},
			writes: []string{status},
			ready:  "False Unavailable: cannot determine whether the used object ConfigMap used exists: nothing at /api/v1/configmaps",
			events: []string{"Warning Unavailable: cannot determine whether the used object ConfigMap used exists: nothing at /api/v1/configmaps"},
		},
		"The kind is served in another version": {
			reason:  "a usage names the version of when it was written",
			objects: []string{strings.Replace(usageForReason, "{apiVersion: v1, kind: ConfigMap", "{apiVersion: example.org/v1alpha1, kind: App", 1), "{apiVersion: example.org/v1, kind: App, metadata: {name: used, namespace: prod, uid: app-1}}"},
			given:   func(w *world) { w.Kinds[appKind.GroupKind()] = fakekube.Kind{Preferred: "v1"} },
			writes:  []string{claim, "patch App prod/used", status},
			ready:   "True Available: ",
			events:  []string{"Normal UsageConfigured: the used object is protected from deletion"},
		},
		"The kind is of cluster scope": {
			reason:  "whoever may create usages in a namespace has no say on it",
			objects: []string{strings.Replace(usageForReason, "{apiVersion: v1, kind: ConfigMap", "{apiVersion: example.org/v1, kind: App", 1), "{apiVersion: example.org/v1, kind: App, metadata: {name: used, uid: app-1}}"},
			given:   func(w *world) { w.Kinds[appKind.GroupKind()] = fakekube.Kind{ClusterScoped: true} },
			writes:  []string{status},
			ready:   "False OutsideNamespace: spec.of has the kind App, which is cluster-scoped: a Usage protects objects of its own namespace only; create a ClusterUsage",
			events:  []string{"Warning OutsideNamespace: spec.of has the kind App, which is cluster-scoped: a Usage protects objects of its own namespace only; create a ClusterUsage"},
		},
		"The object is in another namespace": {
			reason:  "nothing is read or written there",
			objects: []string{usageOfOther, usedByOther},
			writes:  []string{status},
			ready:   "False OutsideNamespace: " + otherNamespace,
			events:  []string{"Warning OutsideNamespace: " + otherNamespace},
		},
		"A former release has marked it": {
			reason:  "it would stay marked for good",
			objects: []string{usageOfOther, usedByOther},
			given: func(w *world) {
				w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{v1beta1.Finalizer}) })
			},
			writes: []string{"patch ConfigMap dev/used", claim, status},
			ready:  "False OutsideNamespace: " + otherNamespace,
			events: []string{"Warning OutsideNamespace: " + otherNamespace},
		},
		"A former release has marked it, and a usage of its namespace needs that": {
			reason:  "only the finalizer goes",
			objects: []string{usageOfOther, usedByOther, strings.NewReplacer("name: u, namespace: prod", "name: v, namespace: dev", "usage-1", "usage-2").Replace(usageForReason)},
			given: func(w *world) {
				w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{v1beta1.Finalizer}) })
			},
			writes: []string{claim, status},
			ready:  "False OutsideNamespace: " + otherNamespace,
			events: []string{"Warning OutsideNamespace: " + otherNamespace},
		},
		"A usage of an object in another namespace is deleted": {
			reason:  "the mark of a former release goes, and a deletion is not replayed",
			objects: []string{usageOfOther, usedByOther},
			given:   func(w *world) { w.Change(usageKey, deleted(v1beta1.Finalizer)) },
			writes:  []string{"patch ConfigMap dev/used", claim},
			ready:   "gone",
		},
		"The last usage is deleted": {
			reason:  "the mark goes before the finalizer",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{v1beta1.InUseLabel: "true"}) })
			},
			writes: []string{mark, claim},
			ready:  "gone",
		},
		"A refused deletion is replayed": {
			reason:  "the usage asks for it, and no other usage is left",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
			},
			refused: "alice",
			writes:  []string{mark, "delete ConfigMap prod/used", forget, claim},
			ready:   "gone",
			events:  []string{"Normal ReplayDeletion: replayed the deletion that user alice requested while the object was in use: ConfigMap prod/used"},
		},
		"A refused deletion is replayed though the cache does not show it": {
			reason:  "the event of the usage's deletion may come before that of the annotation",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.behind = w.Object(usedKey)
				w.Change(usedKey, refusedDeletion)
			},
			refused: "alice",
			writes:  []string{mark, "delete ConfigMap prod/used", forget, claim},
			ready:   "gone",
			events:  []string{"Normal ReplayDeletion: replayed the deletion that user alice requested while the object was in use: ConfigMap prod/used"},
		},
		"A refused deletion that was cancelled is not replayed though the cache shows it": {
			reason:  "the annotation was removed a moment ago",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
				w.behind = w.Object(usedKey)
				w.Change(usedKey, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
			},
			refused: "alice",
			writes:  []string{mark, forget, claim},
			ready:   "gone",
		},
		"A refused deletion isn't replayed": {
			reason:  "nobody has asked for that; its trace goes with the mark",
			objects: []string{used, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
			},
			refused: "alice",
			writes:  []string{mark, forget, claim},
			ready:   "gone",
		},
		"Only the annotation says that a deletion was refused": {
			reason:  "who may change the object may not delete it",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
			},
			writes: []string{mark, claim},
			ready:  "gone",
			events: []string{"Warning DeletionNotReplayed: did not replay the deletion of ConfigMap prod/used: the annotation usage.crossplane.io/deletion-attempt-with-policy is no proof, and no refused deletion is recorded"},
		},
		"Who asked for the deletion may do so no more": {
			reason:  "it is done for nobody else",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
				w.revoked = map[string]bool{"alice": true}
			},
			refused: "alice",
			writes:  []string{mark, forget, claim},
			ready:   "gone",
			events:  []string{"Warning DeletionNotReplayed: did not replay the deletion of ConfigMap prod/used: user alice, who requested it, is no longer allowed to delete the object"},
		},
		"The object whose deletion was refused is gone": {
			reason:  "its record goes with the usage",
			objects: []string{used, usageForReason},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
				w.removeUsed = true
			},
			refused: "alice",
			writes:  []string{forget, claim},
			ready:   "gone",
		},
		"One of two usages is deleted": {
			reason:  "the mark stays for the other",
			objects: []string{used, usageForReason, strings.NewReplacer("name: u,", "name: v,", "usage-1", "usage-2").Replace(usageForReason)},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usedKey, refusedDeletion)
			},
			writes: []string{claim},
			ready:  "gone",
		},
		"A deleted usage is somebody else's as well": {
			reason:  "it stays until the other finalizer goes",
			objects: []string{usageForReason},
			given:   func(w *world) { w.Change(usageKey, deleted(v1beta1.Finalizer, "example.org/other")) },
			writes:  []string{claim},
			ready:   " : ",
		},
		"A composite's usage waits for its user": {
			reason:  "both go with the composite: the order is what the usage is for",
			objects: []string{used, user, usageByUser},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{compositeLabel: "app"}) })
			},
			writes: []string{status},
			ready:  "False Deleting: the usage waits until ConfigMap user is deleted, which uses ConfigMap used",
			events: []string{"Normal WaitingUsingDeleted: the usage waits until ConfigMap user is deleted, which uses ConfigMap used"},
		},
		"A composite's usages wait for each other": {
			reason: "a circle is cut, or nothing would ever go",
			objects: []string{used, user, usageByUser, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: v, namespace: prod, uid: usage-2, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [x]}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: user}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}`},
			given: func(w *world) {
				w.Change(usageKey, deleted(v1beta1.Finalizer))
				w.Change(usageKey, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{compositeLabel: "app"}) })
			},
			writes: []string{claim},
			ready:  "gone",
		},
		"A usage has gone": {
			reason:  "its watches end with it",
			objects: []string{used},
			ready:   "gone",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if tc.given != nil {
				tc.given(w)
				w.refreshIndex()
			}
			if tc.refused != "" {
				w.refuse(t, usedKey, tc.refused)
			}
			if w.removeUsed {
				w.Remove(usedKey)
			}
			out, writes := w.reconcile(t)
			if out.Err != nil {
				t.Errorf("%s: %v", tc.reason, out.Err)
			}
			if diff := cmp.Diff(tc.writes, writes); diff != "" {
				t.Errorf("%s: writes (-want +got):\n%s", tc.reason, diff)
			}
			if got := w.ready(); got != tc.ready {
				t.Errorf("%s: the condition is %q, want %q", tc.reason, got, tc.ready)
			}
			if diff := cmp.Diff(tc.events, w.Events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", tc.reason, diff)
			}
			w.refreshIndex()
			if out, writes := w.reconcile(t); out.Err != nil || len(writes) > 0 {
				t.Errorf("%s: the next reconcile writes %q, %v", tc.reason, writes, out.Err)
			}
		})
	}
}

// TestReconcileAfterAFailedRequest fails each write of a usage's life in turn.
func TestReconcileAfterAFailedRequest(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "used", errors.New("no"))
	cases := map[string]struct {
		given func(*world)
		fails string
		err   error
		want  string
	}{
		"claim":    {nil, "patch Usage prod/u", denied, "PatchUsage: "},
		"mark":     {nil, "patch ConfigMap prod/used", denied, "AddLabel: "},
		"status":   {nil, "update-status Usage prod/u", denied, "write the status: "},
		"conflict": {nil, "patch Usage prod/u", apierrors.NewConflict(schema.GroupResource{}, "u", nil), ""},
		"status of a usage that was changed": {
			nil, "update-status Usage prod/u", apierrors.NewConflict(schema.GroupResource{}, "u", nil), "",
		},
		"unmark":  {ends, "patch ConfigMap prod/used", denied, "RemoveLabel: "},
		"replay":  {ends, "delete ConfigMap prod/used", denied, "Replay: "},
		"forget":  {ends, "delete RefusedDeletion " + refusedName(usedKey), denied, "ForgetRefused: "},
		"release": {ends, "patch Usage prod/u", denied, "RemoveFinalizer: "},
		"removal": {
			func(w *world) {
				w.Change(usageKey, func(o *unstructured.Unstructured) {
					*o = *fakekube.Parse(usageByUser)
					o.SetAnnotations(map[string]string{v1beta1.UserAnnotation: "ConfigMap/user/user-1"})
				})
			},
			"delete Usage prod/u", denied, "DeleteUsage: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, used, usageForReason)
			if tc.given != nil {
				tc.given(w)
				w.refreshIndex()
				if w.Object(usedKey).GetAnnotations() != nil {
					w.refuse(t, usedKey, "alice")
				}
			}
			w.Before = func(request string) error {
				if request != tc.fails {
					return nil
				}
				if apierrors.IsConflict(tc.err) { // which somebody else's write has caused
					w.Change(usageKey, func(*unstructured.Unstructured) {})
				}
				return tc.err
			}
			out, _ := w.reconcile(t)
			switch {
			case tc.want == "" && (out.Err != nil || out.RequeueAfter == 0):
				t.Errorf("the event of the other write brings the next reconcile; got %+v", out)
			case tc.want != "" && (out.Err == nil || !strings.HasPrefix(out.Err.Error(), tc.want)):
				t.Errorf("want an error that begins with %q, got %v", tc.want, out.Err)
			}
			if apierrors.IsForbidden(tc.err) && tc.want != "write the status: " {
				if got := w.ready(); !strings.HasPrefix(got, "False Unavailable: cannot ") || !strings.Contains(got, "Forbidden") {
					t.Errorf("the condition does not report the denial: %s", got)
				}
				w.refreshIndex()
				if _, writes := w.reconcile(t); slices.Contains(writes, "update-status Usage prod/u") {
					t.Errorf("the same denial is reported again: %q", writes)
				}
			}
			w.Before = nil
			w.refreshIndex()
			if out, _ := w.reconcile(t); out.Err != nil {
				t.Errorf("the next reconcile fails as well: %v", out.Err)
			}
			if got := w.ready(); got != "gone" && !strings.HasPrefix(got, "True") {
				t.Errorf("the next reconcile doesn't complete it: %s", got)
			}
		})
	}
}

// ends has the usage deleted, and a deletion of what it is of refused before.
func ends(w *world) {
	w.Change(usageKey, deleted(v1beta1.Finalizer))
	w.Change(usedKey, refusedDeletion)
}

func TestObjectsThatAReconcileReadsEnqueueTheUsage(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	w.reconcile(t)
	if diff := cmp.Diff([]string{"ConfigMap prod/used", "ConfigMap prod/user"}, w.Watched[usageKey]); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	w.Remove(usageKey)
	w.reconcile(t)
	if watched, ok := w.Watched[usageKey]; ok {
		t.Errorf("%q are watched for a usage that has gone", watched)
	}
}

func TestAComposedUsageReadsComposedObjects(t *testing.T) {
	w := newWorld(t, used, user, usageByUser)
	part := func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": "applyset-1"})
	}
	w.Change(usageKey, part)
	w.Change(usedKey, part)
	w.reconcile(t)
	if got := w.ready(); got != "True Available: " {
		t.Errorf("the condition is %q", got)
	}
	w.Kinds[configMapKind.GroupKind()] = fakekube.Kind{State: watch.State{Phase: watch.Syncing}}
	w.Change(usageKey, deleted(v1beta1.Finalizer))
	w.refreshIndex()
	if _, writes := w.reconcile(t); len(writes) > 0 {
		t.Errorf("while children are being read it writes %q", writes)
	}
}
