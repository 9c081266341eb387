package protection

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func replace(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// app is a kind with two children, and with the nodes that replace USES.
var app = suite.Graph("App", "spec: {extra: boolean | default=true}", `
    - id: database
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-database"}}
    - id: client
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-client"}}
USES
`)

const instance = `
---
apiVersion: $GROUP/v1alpha1
kind: App
metadata: {name: x, namespace: $NS}
`

func begin(t *testing.T, uses string) suite.Suite {
	t.Helper()
	s := suite.New(t)
	s.Apply(t, replace(app, "USES", uses))
	s.AwaitDefinitions(t, "app")
	s.Apply(t, instance)
	s.AwaitReady(t, s.Kind("App"), s.NS, "x")
	return s
}

// outside is a Usage that is not a part of the instance.
const outside = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  reason: holds the ledger
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: x-database}}
`

func TestAChildInUseStaysAndIsReported(t *testing.T) {
	s := begin(t, "")
	s.Apply(t, outside)
	awaitReady(t, s, "uses")
	s.Delete(t, s.Kind("App"), s.NS, "x")
	s.Await(t, s.Kind("App"), s.NS, "x", isBlocked("x-database", "holds the ledger", "Usage "+s.NS+"/uses"))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-client") // nobody uses it
	expectPresent(t, s, suite.ConfigMap, "x-database")
	s.Delete(t, usageKind, s.NS, "uses")
	s.AwaitGone(t, s.Kind("App"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-database")
}

func TestAChildIsDeletedOnceItsOutsideUserIsGone(t *testing.T) {
	s := begin(t, "")
	s.Apply(t, two+`
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: x-database}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
`)
	awaitReady(t, s, "uses")
	s.Delete(t, s.Kind("App"), s.NS, "x")
	s.Await(t, s.Kind("App"), s.NS, "x", isBlocked("x-database", "in use by ConfigMap using", "Usage "+s.NS+"/uses"))
	expectPresent(t, s, suite.ConfigMap, "x-database")
	s.Delete(t, suite.ConfigMap, s.NS, "using")
	s.AwaitGone(t, s.Kind("App"), s.NS, "x")
}

// TestPruningKeepsObjectsInUse leaves out a node whose object is in use.
func TestPruningKeepsObjectsInUse(t *testing.T) {
	s := begin(t, "")
	s.Apply(t, outside)
	awaitReady(t, s, "uses")
	s.Patch(t, s.Kind("App"), s.NS, "x", `{"spec":{"extra":false}}`)
	s.Await(t, s.Kind("App"), s.NS, "x", func(o *unstructured.Unstructured) error {
		return hasBlocker(&report.Deletion{Blockers: report.ReadPruning(o)}, "x-database", "holds the ledger")
	})
	expectPresent(t, s, suite.ConfigMap, "x-database")
	s.Delete(t, usageKind, s.NS, "uses")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-database")
	s.Await(t, s.Kind("App"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if len(report.ReadPruning(o)) > 0 {
			return errors.New("still tells of it")
		}
		return nil
	})
}

func TestAnInstanceInUseKeepsAllOfItsChildren(t *testing.T) {
	s := begin(t, "")
	s.Apply(t, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  reason: the billing reads it
  of: {apiVersion: $GROUP/v1alpha1, kind: App, resourceRef: {name: x}}
`)
	awaitReady(t, s, "uses")
	s.Delete(t, s.Kind("App"), s.NS, "x")
	s.Await(t, s.Kind("App"), s.NS, "x", isBlocked("x", "the billing reads it"))
	expectPresent(t, s, suite.ConfigMap, "x-database", "x-client")
	s.Delete(t, usageKind, s.NS, "uses")
	s.AwaitGone(t, s.Kind("App"), s.NS, "x")
}

// parts are Usages that are nodes of the instance, each by itself a way to wait for
// oneself.
var parts = map[string]string{
	"by another node, by name": usageNodes("{of: " + database + ", by: " + client + "}"),
	"by another node, by selectors": usageNodes(`{of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchControllerRef: true, matchLabels: {kro.run/node-id: database}}},
          by: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchControllerRef: true, matchLabels: {kro.run/node-id: client}}}}`),
	"by a node that what is used stands on": `
    - id: late
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-late"}, data: {of: "${client.metadata.name}"}}` +
		usageNodes("{of: "+suite.UsageRef("late")+", by: "+client+"}"),
	"by nobody": usageNodes("{reason: because, of: " + database + "}"),
	"by each other": usageNodes("{of: "+database+", by: "+client+"}") +
		suite.UsageNode("back", `"${schema.metadata.name}-back"`, "{of: "+client+", by: "+database+"}"),
	"by itself":                 usageNodes("{of: " + database + ", by: " + database + "}"),
	"by the instance":           usageNodes("{of: " + database + ", by: " + itself + "}"),
	"of the instance by a node": usageNodes("{of: " + itself + ", by: " + client + "}"),
	"of the instance by nobody": usageNodes("{reason: because, of: " + itself + "}"),
}

var (
	database, client = suite.UsageRef("database"), suite.UsageRef("client")
	itself           = `{apiVersion: $GROUP/v1alpha1, kind: App, resourceRef: {name: "${schema.metadata.name}"}}`
)

// usageNodes is a node that is a Usage.
func usageNodes(spec string) string {
	return suite.UsageNode("uses", `"${schema.metadata.name}-uses"`, spec)
}

// TestAUsageInTheInstanceDoesNotBlockItsDeletion deletes instances that have Usages among their
// nodes, in each order of the nodes: no blocker is reported.
func TestAUsageInTheInstanceDoesNotBlockItsDeletion(t *testing.T) {
	for name, uses := range parts {
		t.Run(name, func(t *testing.T) {
			s := begin(t, uses)
			t.Cleanup(func() {
				for _, kind := range []schema.GroupVersionKind{usageKind, suite.ConfigMap} {
					list, _ := s.Resource(t, kind, s.NS).List(context.Background(), metav1.ListOptions{})
					for i := range list.Items {
						t.Log(testkit.JSON(&list.Items[i]))
					}
				}
			})
			awaitReady(t, s, "x-uses")
			s.Delete(t, s.Kind("App"), s.NS, "x")
			s.Await(t, s.Kind("App"), s.NS, "x", func(o *unstructured.Unstructured) error {
				switch {
				case o == nil:
					return nil
				case report.ReadDeletion(o) != nil && report.ReadDeletion(o).Blocked > 0:
					t.Fatalf("something is in the way: %+v", report.ReadDeletion(o).Blockers)
				}
				return errors.New("is there")
			})
			for _, name := range []string{"x-database", "x-client"} {
				s.AwaitGone(t, suite.ConfigMap, s.NS, name)
			}
			s.AwaitGone(t, usageKind, s.NS, "x-uses")
		})
	}
}

// TestTheUserIsDeletedFirst blocks the deletion of the using object, and checks that the used one
// is not deleted before it.
func TestTheUserIsDeletedFirst(t *testing.T) {
	s := begin(t, parts["by another node, by name"])
	awaitReady(t, s, "x-uses")
	s.Patch(t, suite.ConfigMap, s.NS, "x-client", `{"metadata":{"finalizers":["example.com/guard"]}}`)
	s.Delete(t, s.Kind("App"), s.NS, "x")
	s.Await(t, s.Kind("App"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if d := report.ReadDeletion(o); d == nil || len(d.Blockers) != 1 || d.Blockers[0].Object.Name != "x-client" || d.Blockers[0].Reason != report.HeldByFinalizer {
			return errors.New("doesn't tell of x-client alone")
		}
		return nil
	})
	expectPresent(t, s, suite.ConfigMap, "x-database")
	expectPresent(t, s, usageKind, "x-uses")
	s.Patch(t, suite.ConfigMap, s.NS, "x-client", `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(t, s.Kind("App"), s.NS, "x")
}

// TestAUsageInTheInstanceWaitsForAnOutsideUser has a node that is used by an object outside the
// instance: while that object exists, the deletion of the instance stops at the Usage and the
// used node.
func TestAUsageInTheInstanceWaitsForAnOutsideUser(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, two)
	s.Apply(t, replace(app, "USES", usageNodes("{of: "+database+", by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}}")))
	s.AwaitDefinitions(t, "app")
	s.Apply(t, instance)
	awaitReady(t, s, "x-uses")
	s.Delete(t, s.Kind("App"), s.NS, "x")
	s.Await(t, s.Kind("App"), s.NS, "x", isBlocked("x-database", "in use by ConfigMap using"))
	s.Await(t, usageKind, s.NS, "x-uses", readyIs("False", "Deleting", "ConfigMap using"))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-client")
	expectPresent(t, s, suite.ConfigMap, "x-database")
	s.Delete(t, suite.ConfigMap, s.NS, "using")
	s.AwaitGone(t, s.Kind("App"), s.NS, "x")
}
