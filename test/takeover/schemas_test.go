package takeover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

const (
	definitionsCRD = "resourcegraphdefinitions.kro.run"
	revisionsCRD   = "graphrevisions.internal.kro.run"
)

// unknownToOthers are the fields that only Espalier has, as far as these tests need them.
var unknownToOthers = map[string][]string{
	definitionsCRD: {"spec.serviceAccount", "spec.rollout", "spec.revision", "status.observedGeneration", "status.servingRevision", "status.rollout", "status.serviceAccount"},
	revisionsCRD:   {"spec.account", "spec.snapshot.namespace", "spec.snapshot.spec.serviceAccount", "status.observedGeneration"},
}

// installOthers installs the CustomResourceDefinitions of the graph dialect without the fields that only Espalier has, and
// with a field that Espalier does not have, if it has a name.
func installOthers(t *testing.T, w *testkit.Cluster, unknown string) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, c := range live.InstalledCRDs(t, live.KRO) {
		fields, installed := unknownToOthers[c.GetName()]
		if !installed {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
		root := []string{"schema", "openAPIV3Schema"}
		version := versions[0].(map[string]any)
		for _, field := range fields {
			path := root
			for name := range strings.SplitSeq(field, ".") {
				path = append(path, "properties", name)
			}
			unstructured.RemoveNestedField(version, path...)
		}
		unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "status", "default")
		if unknown != "" {
			path := append(root, "properties", "spec", "properties", unknown)
			if err := unstructured.SetNestedMap(version, map[string]any{"type": "string"}, path...); err != nil {
				t.Fatal(err)
			}
		}
		if err := unstructured.SetNestedSlice(c.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Resource(t, suite.CRD, "").Create(t.Context(), c, metav1.CreateOptions{FieldManager: "installer"}); err != nil {
			t.Fatal(err)
		}
		out[c.GetName()] = w.Await(t, suite.CRD, "", c.GetName(), suite.HasCondition("Established", "True", "InitialNamesAccepted"))
	}
	return out
}

// kept is a definition with a ConfigMap that has a value.
func kept(value string) string {
	return "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: kept}\n" +
		"spec:\n  schema: {apiVersion: v1alpha1, kind: Kept, group: kept.example.org, spec: {size: integer}}\n" +
		"  resources: [{id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.metadata.name}'}, data: {value: '" + value + "'}}}]\n"
}

// awaitRevision waits until the newest revision is the one of a number and composes instances.
func awaitRevision(t *testing.T, w *testkit.Cluster, number int) {
	t.Helper()
	w.Await(t, suite.RGD, "", "kept", func(o *unstructured.Unstructured) error {
		if issued, _, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision"); issued != int64(number) {
			return fmt.Errorf("revision %d was issued last", issued)
		}
		if testkit.ConditionStatus(o, "Ready") != "True" {
			return errors.New("is not ready: " + testkit.ConditionMessage(o, "Ready"))
		}
		return nil
	})
	w.Await(t, definition.RevisionKind, "", fmt.Sprintf("kept-r%05d", number), suite.HasCondition("Ready", "True", "Ready"))
}

// checkComplete checks that a plan says in time that nothing is left to take over.
func checkComplete(t *testing.T, kubeconfig string) {
	t.Helper()
	began := time.Now()
	code, out, errs := runCLI(t.Context(), "takeover", "--plan", "--dialects", "graph", "--wait", "10m", "--kubeconfig", kubeconfig)
	if code != 0 || !strings.Contains(out, "nothing needs a takeover") {
		t.Errorf("after %s, the plan ends with %d:\n%s\n%s", time.Since(began), code, out, errs)
	}
}

// serveGraphs runs the controllers of the graph dialect with what 'espalier run' installs by default.
func serveGraphs(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	c := suite.Start(t, server.Options{Config: config, Settings: server.Settings{Dialects: []server.Dialect{server.Graph}, Usages: true}})
	return func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestSchemasOfAnotherProgramAreReplacedAndGivenBack takes definitions over from a program whose schemas lack fields.
func TestSchemasOfAnotherProgramAreReplacedAndGivenBack(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	kubeconfig := testkit.Kubeconfig(t, config)
	theirs := installOthers(t, w, "")
	w.Apply(t, kept("1"))
	code, out, errs := runCLI(t.Context(), "takeover", "--plan", "--dialects", "graph", "--kubeconfig", kubeconfig)
	if text := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(text, "note: CustomResourceDefinition "+revisionsCRD+": installed by another program; dropped fields: .spec.account") ||
		!strings.Contains(text, "it is replaced") {
		t.Errorf("the plan ends with %d:\n%s\n%s", code, out, errs)
	}

	stop := serveGraphs(t, config)
	awaitRevision(t, w, 1)
	w.Apply(t, kept("2"))
	awaitRevision(t, w, 2)
	second := w.Get(t, definition.RevisionKind, "", "kept-r00002")
	if account, _, _ := unstructured.NestedString(second.Object, "spec", "account"); account != "controllers" {
		t.Errorf("the account of the revision is %q", account)
	}
	w.Await(t, suite.RGD, "", "kept", func(o *unstructured.Unstructured) error {
		if serving, _, _ := unstructured.NestedInt64(o.Object, "status", "servingRevision"); serving != 2 {
			return fmt.Errorf("status.servingRevision is %d", serving)
		}
		return nil
	})
	checkComplete(t, kubeconfig)
	stop()

	for _, arguments := range [][]string{{"--plan"}, {}, {}} {
		giveBack(t, kubeconfig, "kro", arguments...)
	}
	for name, was := range theirs {
		is := w.Get(t, suite.CRD, "", name)
		for _, o := range []*unstructured.Unstructured{was, is} {
			o.Object = map[string]any{"spec": o.Object["spec"], "annotations": o.GetAnnotations(), "owners": fieldOwners(t, o, nil)}
		}
		if diff := cmp.Diff(was.Object, is.Object); diff != "" {
			t.Errorf("CustomResourceDefinition %s -theirs +now\n%s", name, diff)
		}
	}
}

// TestDefinitionsAreServedWithSchemasThatLackFields keeps schemas that have a field which Espalier would remove.
func TestDefinitionsAreServedWithSchemasThatLackFields(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	installOthers(t, w, "later")
	w.Apply(t, kept("1"))
	var counter testkit.Counter
	defer serveGraphs(t, counter.Wrap(config))()
	awaitRevision(t, w, 1)
	w.Apply(t, kept("2"))
	awaitRevision(t, w, 2)
	message := testkit.ConditionMessage(w.Get(t, suite.RGD, "", "kept"), "FieldsStored")
	for _, text := range []string{"that of ResourceGraphDefinition lacks .spec.revision", "that of GraphRevision lacks .spec.account", "espalier run --check"} {
		if !strings.Contains(message, text) {
			t.Errorf("the condition FieldsStored does not say %q: %s", text, message)
		}
	}
	w.Apply(t, "apiVersion: kept.example.org/v1alpha1\nkind: Kept\nmetadata: {name: one, namespace: default}\n")
	w.Await(t, suite.ConfigMap, "default", "one", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		return nil
	})
	// A status is written again a few times, in case the API server does not use a new schema yet.
	testkit.PollFor(t, 2*time.Minute, "no requests are made for 5 seconds", func() bool {
		before := counter.Snapshot()
		<-time.After(5 * time.Second)
		return counter.Since(before).Total == 0
	})
	checkComplete(t, testkit.Kubeconfig(t, config))
}
