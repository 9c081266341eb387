// Package definitions tests the controllers of definitions and compositions of the
// composition dialect on a real API server. What serves composites and claims is the
// tests' own.
package definitions

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	v2 "github.com/espalier-dev/espalier/api/apiextensions/v2"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // for who writes in v1, as the tests do
	os.Exit(suite.Main(m, server.Options{Composites: shared.withCluster}, nil))
}

// shared serves the kinds of all tests that share controllers.
var shared = &recordingKinds{}

var (
	definition  = v1.GroupVersion.WithKind(v1.DefinitionKind)
	newer       = v2.GroupVersion.WithKind(v1.DefinitionKind)
	composition = v1.GroupVersion.WithKind(v1.CompositionKind)
	revision    = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	crdKind     = suite.CRD
)

// testCluster is a test's API group and namespace.
type testCluster struct {
	suite.Suite
	port *recordingKinds
}

func newTestCluster(t *testing.T) testCluster {
	t.Helper()
	return testCluster{suite.New(t), shared}
}

// kind is one of the test's own kinds.
func (c testCluster) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.Group, Version: "v1", Kind: name}
}

// name is the name of a definition.
func (c testCluster) name(plural string) string { return plural + "." + c.Group }

type check = func(*unstructured.Unstructured) error

// all checks what is there.
func all(checks ...check) check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		for _, check := range checks {
			if err := check(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// conditionIs checks a condition, for the current generation, and what its message contains.
func conditionIs(kind, status, reason string, contains ...string) check {
	return func(o *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, item := range list {
			c, _ := item.(map[string]any)
			if c["type"] != kind {
				continue
			}
			if c["status"] != status || c["reason"] != reason || c["observedGeneration"] != o.GetGeneration() {
				return fmt.Errorf("%s is %v: %v: %v (generation %v of %d)", kind, c["status"], c["reason"], c["message"], c["observedGeneration"], o.GetGeneration())
			}
			for _, text := range contains {
				if message, _ := c["message"].(string); !strings.Contains(message, text) {
					return fmt.Errorf("%s doesn't say %q, but %q", kind, text, message)
				}
			}
			return nil
		}
		return errors.New("there is no condition " + kind)
	}
}

func isEstablished(o *unstructured.Unstructured) error {
	return all(conditionIs("Established", "True", "WatchingCompositeResource"))(o)
}

func isOffered(o *unstructured.Unstructured) error {
	return all(conditionIs("Offered", "True", "WatchingCompositeResourceClaim"))(o)
}

// fieldIs checks the value of a field.
func fieldIs(want any, path ...string) check {
	return func(o *unstructured.Unstructured) error {
		got, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
		if err != nil || got != want {
			return fmt.Errorf("%s is %v, not %v", strings.Join(path, "."), got, want)
		}
		return nil
	}
}

// definitionText is a definition with the test's group, of a scope, in the form of a version.
func definitionText(version, kind, more string) string {
	plural := strings.ToLower(kind) + "s"
	return `
apiVersion: apiextensions.crossplane.io/` + version + `
kind: CompositeResourceDefinition
metadata: {name: ` + plural + `.$GROUP}
spec:
  group: $GROUP
  names: {kind: ` + kind + `, plural: ` + plural + `}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}
` + more
}

const claimable = "  claimNames: {kind: Claim, plural: claims}\n"

// compositionText is a composition for a kind of the test's.
func compositionText(name, kind, more string) string {
	return `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: ` + name + `.$GROUP}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1, kind: ` + kind + `}
  mode: Pipeline
  pipeline:
  - step: first
    functionRef: {name: function-auto-ready}
` + more
}

func finalizersAre(finalizers ...string) check {
	return func(o *unstructured.Unstructured) error {
		if got := o.GetFinalizers(); strings.Join(got, " ") != strings.Join(finalizers, " ") {
			return fmt.Errorf("finalizers are %v", got)
		}
		return nil
	}
}

// update changes an object by a read and an update, as clients do.
func update(t *testing.T, c testCluster, gvk schema.GroupVersionKind, ns, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	o := c.Get(t, gvk, ns, name)
	if o == nil {
		t.Fatalf("there is no %s %s", gvk.Kind, name)
	}
	change(o)
	if _, err := c.Resource(t, gvk, ns).Update(t.Context(), o, updating); err != nil {
		t.Fatal(err)
	}
}
