package takeover

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

const environments = "environmentconfigs.apiextensions.crossplane.io"

// runCLI runs the program and returns its exit code and what it printed.
func runCLI(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// Crossplane 2 serves EnvironmentConfigs only in v1beta1, which the controllers read.
func TestControllersStartWhereCrossplaneRan(t *testing.T) {
	s := suite.New(t)
	s.Await(t, app, "team-a", "shop", func(o *unstructured.Unstructured) error {
		if err := live.IsSameObject(before["App team-a/shop"], o); err != nil {
			return err
		}
		if !strings.HasPrefix(o.GetAnnotations()["applyset.kubernetes.io/tooling"], "espalier/") {
			return errors.New("has no annotation applyset.kubernetes.io/tooling of espalier")
		}
		return nil
	})
	if _, ours := s.Get(t, suite.CRD, "", environments).GetAnnotations()[v1alpha1.AppliedAnnotation]; ours {
		t.Error("another program's CustomResourceDefinition has been changed")
	}
}

func TestAllCRDsAreInstalledOrNone(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	kubeconfig := testkit.Kubeconfig(t, config)
	of := w.Resource(t, suite.CRD, "")
	var c *unstructured.Unstructured
	for _, installed := range live.InstalledCRDs(t, live.Crossplane) {
		if installed.GetName() == environments {
			c = installed
		}
	}
	versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
	versions[0].(map[string]any)["name"] = "v1alpha1" // all that Crossplane 1.x served
	if err := unstructured.SetNestedSlice(c.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := of.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const problem = "CustomResourceDefinition " + environments + " exists, was installed by another program, and serves v1alpha1, but not v1beta1"

	code, out, errs := runCLI(t.Context(), "run", "--check", "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(errs, problem) || !strings.Contains(out, "Refused") || !strings.Contains(out, "holds.espalier.dev") {
		t.Errorf("--check ended with %d:\n%s\n%s", code, out, errs)
	}
	code, _, errs = runCLI(t.Context(), "run", "--kubeconfig", kubeconfig, "--leader-elect=false",
		"--health-probe-bind-address=0", "--metrics-bind-address=0", "--introspection-socket=0")
	if code != 1 || !strings.Contains(errs, problem) {
		t.Errorf("run ended with %d: %s", code, errs)
	}
	if names := crds(t, w); !slices.Equal(names, []string{environments}) {
		t.Errorf("the CustomResourceDefinitions are %v", names)
	}

	w.DeleteCRD(t, environments)
	w.AwaitGone(t, suite.CRD, "", environments)
	versions[0].(map[string]any)["name"] = "v1beta1" // all that Crossplane 2 serves
	if err := unstructured.SetNestedSlice(c.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := of.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, errs = runCLI(t.Context(), "run", "--check", "--kubeconfig", kubeconfig)
	if code != 0 || !strings.Contains(out, "installed by another program; objects of v1alpha1 are refused") || !strings.Contains(out, "Nothing prevents the installation") {
		t.Errorf("--check ended with %d:\n%s\n%s", code, out, errs)
	}
	if names := crds(t, w); !slices.Equal(names, []string{environments}) {
		t.Errorf("--check has installed %v", names)
	}
}

// TestCRDsOfANewerReleaseStay installs a CustomResourceDefinition of a later schema, as another replica does during an
// upgrade, or a provider that was built with a later release.
func TestCRDsOfANewerReleaseStay(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	raw, err := espalier.CRDs.ReadFile("crds/espalier.dev_bindings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	newer := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &newer.Object); err != nil {
		t.Fatal(err)
	}
	newer.SetAnnotations(map[string]string{v1alpha1.SchemaAnnotation: "1000", v1alpha1.AppliedAnnotation: "by the newer release"})
	versions, _, _ := unstructured.NestedSlice(newer.Object, "spec", "versions")
	later := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "later"}
	if err := unstructured.SetNestedField(versions[0].(map[string]any), map[string]any{"type": "string"}, later...); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(newer.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Resource(t, suite.CRD, "").Create(t.Context(), newer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runCLI(t.Context(), "run", "--check", "--kubeconfig", testkit.Kubeconfig(t, config))
	if code != 0 || !strings.Contains(out, "installed by a newer release") {
		t.Errorf("--check ended with %d:\n%s\n%s", code, out, errs)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		_, _, errs := runCLI(ctx, "run", "--kubeconfig", testkit.Kubeconfig(t, config), "--leader-elect=false",
			"--health-probe-bind-address=0", "--metrics-bind-address=0", "--introspection-socket=0")
		ended <- errs
	}()
	w.Await(t, suite.CRD, "", "resourcegraphdefinitions.kro.run", suite.HasCondition("Established", "True", "InitialNamesAccepted"))
	w.Await(t, suite.CRD, "", "holds.espalier.dev", suite.HasCondition("Established", "True", "InitialNamesAccepted"))
	cancel()
	if errs := <-ended; !strings.Contains(errs, "was installed by a newer release") {
		t.Errorf("the log does not say so: %s", errs)
	}
	stored, _, _ := unstructured.NestedSlice(w.Get(t, suite.CRD, "", "bindings.espalier.dev").Object, "spec", "versions")
	if _, has, _ := unstructured.NestedMap(stored[0].(map[string]any), later...); !has {
		t.Error("a field of the newer release is gone")
	}
}

// crds are the names of all CustomResourceDefinitions.
func crds(t *testing.T, w *testkit.Cluster) []string {
	t.Helper()
	list := w.List(t, suite.CRD, "", "")
	var out []string
	for i := range list {
		out = append(out, list[i].GetName())
	}
	return out
}
