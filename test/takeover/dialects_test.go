package takeover

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

const (
	othersGraph = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: theirs}\n" +
		"spec: {schema: {apiVersion: v1alpha1, kind: Theirs, group: dialects.example.com}, resources: []}\n"
	ourDefinition = "apiVersion: apiextensions.crossplane.io/v1\nkind: CompositeResourceDefinition\nmetadata: {name: ours.dialects.example.com}\n" +
		"spec:\n  group: dialects.example.com\n  names: {kind: Our, plural: ours}\n" +
		"  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}]\n"
)

// Two programs that serve the same definitions undo each other's work.
func TestADialectOfAnotherProgramIsNotServed(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	for _, c := range live.InstalledCRDs(t, live.KRO) {
		if _, err := w.Resource(t, suite.CRD, "").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := runCLI(t.Context(), "run", "--check", "--kubeconfig", testkit.Kubeconfig(t, config))
	if code != 0 || !strings.Contains(out, "note: the graph dialect is not served") || strings.Contains(out, "graphrevisions") {
		t.Errorf("--check ended with %d:\n%s\n%s", code, out, errs)
	}

	w.Apply(t, othersGraph)
	stop := serve(t, config, nil)
	w.Apply(t, ourDefinition)
	w.Await(t, xrdKind, "", "ours.dialects.example.com", func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "Established") != "True" {
			return errors.New("the composition dialect is not served")
		}
		return nil
	})
	if o := w.Get(t, suite.RGD, "", "theirs"); len(o.GetFinalizers()) > 0 || len(condition.Read(o)) > 0 {
		t.Errorf("the graph dialect is served: %v", o.Object)
	}
	stop()

	defer serve(t, config, []server.Dialect{server.Graph})()
	w.Await(t, suite.RGD, "", "theirs", func(o *unstructured.Unstructured) error {
		if o.Object["status"] == nil {
			return errors.New("it isn't served on request")
		}
		return nil
	})
}

// serve runs the controllers until they are stopped.
func serve(t *testing.T, config *rest.Config, dialects []server.Dialect) (stop func()) {
	t.Helper()
	c := suite.Start(t, server.Options{Config: config, Settings: server.Settings{Dialects: dialects}})
	return func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
}

var xrdKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
