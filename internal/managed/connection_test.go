package managed

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// connected is a world in which the database exists, and has a connection secret.
func connected(t *testing.T) *world {
	t.Helper()
	return existing(t, set(map[string]any{"name": "conn"}, "spec", "writeConnectionSecretToRef"))
}

func (w *world) host() string {
	o := w.Object(secretKey)
	if o == nil {
		return ""
	}
	host, _, _ := unstructured.NestedString(o.Object, "data", "host")
	return host
}

func TestAConnectionSecretIsPublished(t *testing.T) {
	const db = "ZGI="
	cases := map[string]struct {
		reason string
		given  func(*world)
		writes []string
		host   string
		synced string
	}{
		"once": {
			"what is as it is to be costs no request", func(*world) {}, nil, db, "True ReconcileSuccess: ",
		},
		"somebody has deleted it": {
			"it is put back",
			func(w *world) { w.Remove(secretKey) },
			[]string{"apply Secret prod/conn", "patch Database prod/db"}, db, "True ReconcileSuccess: ",
		},
		"somebody has changed it": {
			"it is put back",
			func(w *world) { w.Change(secretKey, set("eA==", "data", "host")) },
			[]string{"apply Secret prod/conn", "apply Secret prod/conn", "patch Database prod/db"}, db, "True ReconcileSuccess: ",
		},
		"somebody else has taken the name": {
			"what belongs to others stays as it is",
			func(w *world) {
				w.Change(secretKey, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
				w.Change(databaseKey, annotated(publishedAnnotation, "other"))
			},
			[]string{"apply Secret prod/conn", "update-status Database prod/db"}, db,
			"False ReconcileError: PublishConnection: write the connection secret prod/conn: it exists already, and this object does not control it. Delete it, or set another name in spec.writeConnectionSecretToRef",
		},
		"secrets may not be watched": {
			"what was noted counts",
			func(w *world) {
				w.Kinds[secretKind.GroupKind()] = fakekube.Kind{State: forbidden}
				w.Remove(secretKey)
			}, nil, "", "True ReconcileSuccess: ",
		},
		"secrets are being read": {
			"nothing is asked before it is known what there is",
			func(w *world) {
				w.Kinds[secretKind.GroupKind()] = fakekube.Kind{State: unsynced}
				w.Remove(secretKey)
			}, nil, "", "True ReconcileSuccess: ",
		},
		"the secret can't be written": {
			"the error doesn't quote what was written",
			func(w *world) {
				w.Remove(secretKey)
				w.Before = func(request string) error {
					if strings.HasPrefix(request, "apply Secret") {
						return errRefused
					}
					return nil
				}
			}, []string{"apply Secret prod/conn", "update-status Database prod/db"}, "",
			"False ReconcileError: PublishConnection: write the connection secret prod/conn: the API server answers Forbidden to patch things",
		},
		"it is deleted": {
			"the secret goes with its owner",
			func(w *world) { w.Change(databaseKey, deleted) }, nil, db, "gone",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := connected(t)
			tc.given(w)
			_, writes := w.reconcile(t)
			if diff := cmp.Diff(tc.writes, writes); diff != "" && tc.synced != "gone" {
				t.Errorf("%s: requests (-want +got):\n%s", tc.reason, diff)
			}
			if w.host() != tc.host || !strings.HasPrefix(w.condition(resource.Synced), tc.synced) {
				t.Errorf("%s: the host is %q, and Synced is %q", tc.reason, w.host(), w.condition(resource.Synced))
			}
		})
	}
}

// A password that another replica has generated and stored would be replaced by another one.
func TestAConnectionSecretThatIsNotInTheCacheIsReadBeforeItIsReplaced(t *testing.T) {
	w := connected(t)
	const theirs = "bmV3"
	w.Change(secretKey, set(theirs, "data", "host"))
	w.Uncached[secretKey] = true
	out, writes := w.reconcile(t)
	if diff := cmp.Diff([]string{"apply Secret prod/conn"}, writes); diff != "" || out.Err != nil || out.RequeueAfter == 0 {
		t.Errorf("it ends with %+v after the requests (-want +got):\n%s", out, diff)
	}
	if w.host() != theirs || w.Uncached[secretKey] {
		t.Errorf("the host is %q, and the cache lacks the secret: %t", w.host(), w.Uncached[secretKey])
	}
}

// The content may follow from what the client has read: a password that was generated or restored meanwhile would be
// replaced.
func TestAConnectionSecretThatChangesDuringACallIsReadAgain(t *testing.T) {
	w := connected(t)
	w.Change(databaseKey, annotated(publishedAnnotation, "other"))
	const theirs = "bmV3"
	changed := false
	connect := w.r.Port.Connect
	w.r.Port.Connect = func(ctx context.Context, objects port.Objects, m *unstructured.Unstructured) (port.Session, error) {
		if !changed {
			changed = true
			w.Change(secretKey, set(theirs, "data", "host"))
		}
		return connect(ctx, objects, m)
	}
	out, writes := w.reconcile(t)
	if diff := cmp.Diff([]string{"apply Secret prod/conn"}, writes); diff != "" || out.Err != nil || out.RequeueAfter == 0 || w.host() != theirs {
		t.Errorf("the host is %q, and it ends with %+v after the requests (-want +got):\n%s", w.host(), out, diff)
	}
	if w.reconcile(t); w.host() == theirs {
		t.Error("the next reconcile has read it, and does not restore it")
	}
}

func TestAContestedConnectionSecretIsReported(t *testing.T) {
	w := connected(t)
	for range 2 {
		w.Remove(secretKey)
		w.reconcile(t)
		w.now = w.now.Add(time.Second)
	}
	if got := w.condition(resource.Synced); !strings.Contains(got, "another client keeps changing or deleting the connection secret") {
		t.Errorf("Synced is %q", got)
	}
}
