// Package protection tests Usages and ClusterUsages on a real API server with its garbage collector:
// which objects they protect, what is reported, and that the objects are deleted once the usages are.
package protection

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{Usages: true}, Providers: []managed.Provider{sandbox.Provider(sky)}}, nil))
}

// sky is where buckets are.
var sky = cloud.New(cloud.Options{})

var (
	usageKind        = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}
	clusterUsageKind = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "ClusterUsage"}
	namespaceKind    = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

const inUse = "crossplane.io/in-use"

// isMarked checks the label of an object in use.
func isMarked(want bool) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		switch {
		case o == nil:
			return errors.New("is gone")
		case (o.GetLabels()[inUse] == "true") != want:
			return fmt.Errorf("marked as in use: %t", !want)
		}
		return nil
	}
}

// isBlocked checks that a deletion reports a protected object as a blocker.
func isBlocked(object string, says ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		return hasBlocker(report.ReadDeletion(o), object, says...)
	}
}

func hasBlocker(d *report.Deletion, object string, says ...string) error {
	if d == nil {
		return errors.New("reports nothing about its deletion")
	}
	for _, b := range d.Blockers {
		deepest := b.RootCause()
		if deepest.Reason != report.Protected || deepest.Object.Name != object {
			continue
		}
		for _, text := range says {
			if !strings.Contains(deepest.Message, text) {
				return fmt.Errorf("%q isn't in %q", text, deepest.Message)
			}
		}
		return nil
	}
	return fmt.Errorf("does not report that %s is protected: %+v", object, d.Blockers)
}

// expectPresent fails unless all objects exist and are not terminating.
func expectPresent(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, names ...string) {
	t.Helper()
	for _, name := range names {
		if o := s.Get(t, gvk, s.NS, name); o == nil || o.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s is deleted", gvk.Kind, name)
		}
	}
}

// awaitReady waits until a usage is available.
func awaitReady(t *testing.T, s suite.Suite, name string) *unstructured.Unstructured {
	t.Helper()
	return s.Await(t, usageKind, s.NS, name, readyIs("True", "Available"))
}

func readyIs(status, reason string, texts ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		if testkit.ConditionStatus(o, "Ready") != status || testkit.ConditionReason(o, "Ready") != reason {
			return fmt.Errorf("Ready is %s, %s: %s", testkit.ConditionStatus(o, "Ready"), testkit.ConditionReason(o, "Ready"), testkit.ConditionMessage(o, "Ready"))
		}
		for _, text := range texts {
			if !strings.Contains(testkit.ConditionMessage(o, "Ready"), text) {
				return fmt.Errorf("%q isn't in %q", text, testkit.ConditionMessage(o, "Ready"))
			}
		}
		return nil
	}
}
