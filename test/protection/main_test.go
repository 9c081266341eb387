// Package protection tests Usages and ClusterUsages on a real API server with its
// garbage collector: whom they keep, what is told of that, and that what they keep goes
// once they have gone.
package protection

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Usages: true, Providers: []managed.Provider{sandbox.Provider(sky)}}, nil))
}

// sky is where buckets are.
var sky = cloud.New(cloud.Options{})

var (
	usageKind        = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}
	clusterUsageKind = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "ClusterUsage"}
	namespaceKind    = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

const inUse = "crossplane.io/in-use"

// marked looks whether an object carries the mark of being used.
func marked(want bool) func(*unstructured.Unstructured) error {
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

// blocked looks whether a deletion tells that an object is kept.
func blocked(object string, says ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		return tells(report.ReadDeletion(o), object, says...)
	}
}

func tells(d *report.Deletion, object string, says ...string) error {
	if d == nil {
		return errors.New("tells nothing of its deletion")
	}
	for _, b := range d.Blockers {
		deepest := b.Deepest()
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
	return fmt.Errorf("doesn't tell that %s is protected: %+v", object, d.Blockers)
}

// patch merges a change into an object, as a person would.
func patch(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, namespace, name, body string) {
	t.Helper()
	_, err := s.Of(t, gvk, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
}

// there fails unless an object is there and not being deleted.
func there(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, names ...string) {
	t.Helper()
	for _, name := range names {
		if o := s.Get(t, gvk, s.NS, name); o == nil || o.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s is deleted", gvk.Kind, name)
		}
	}
}

// ready waits until a usage says so.
func ready(t *testing.T, s suite.Suite, name string) *unstructured.Unstructured {
	t.Helper()
	return s.Await(t, usageKind, s.NS, name, says("True", "Available"))
}

func says(status, reason string, texts ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		if testkit.Condition(o, "Ready") != status || testkit.ReasonOf(o, "Ready") != reason {
			return fmt.Errorf("Ready is %s, %s: %s", testkit.Condition(o, "Ready"), testkit.ReasonOf(o, "Ready"), testkit.Message(o, "Ready"))
		}
		for _, text := range texts {
			if !strings.Contains(testkit.Message(o, "Ready"), text) {
				return fmt.Errorf("%q isn't in %q", text, testkit.Message(o, "Ready"))
			}
		}
		return nil
	}
}
