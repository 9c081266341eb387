package chart

import (
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/charts"
	"github.com/espalier-dev/espalier/cmd/espalier/chart"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
	aws "github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// release is what a GitOps tool reads of an example to render the chart.
type release struct {
	name, namespace, version string
	values                   any
}

func example(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../examples/gitops/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Parse(t, string(text))
}

func field(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

func argoRelease(t *testing.T) release {
	app := find(t, example(t, "argocd.yaml"), "Application", "espalier")
	source := field(app, "spec", "sources").([]any)[1].(map[string]any)
	helm := source["helm"].(map[string]any)
	return release{helm["releaseName"].(string), field(app, "spec", "destination", "namespace").(string), source["targetRevision"].(string), helm["valuesObject"]}
}

func fluxRelease(t *testing.T) release {
	all := example(t, "flux.yaml")
	o, source := find(t, all, "HelmRelease", "espalier"), find(t, all, "OCIRepository", "espalier")
	if field(o, "spec", "chartRef", "name") != source.GetName() || source.GetNamespace() != o.GetNamespace() {
		t.Error("the HelmRelease does not name the OCIRepository beside it")
	}
	return release{field(o, "spec", "releaseName").(string), o.GetNamespace(), field(source, "spec", "ref", "tag").(string), field(o, "spec", "values")}
}

// TestTheGitOpsExamplesRender renders the chart as Argo CD and Flux do, with exactly the values of the examples.
func TestTheGitOpsExamplesRender(t *testing.T) {
	raw, err := fs.ReadFile(charts.Espalier(), "Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var about struct{ Version string }
	if err := yaml.Unmarshal(raw, &about); err != nil {
		t.Fatal(err)
	}
	want := renderIn(t, namespace, "image.repository=registry.example.com/espalier", "image.tag=0.1.0", "replicas=3")
	for name, r := range map[string]release{"Argo CD": argoRelease(t), "Flux": fluxRelease(t)} {
		t.Run(name, func(t *testing.T) {
			if r.version != about.Version {
				t.Errorf("the version of the chart is %s, not %s", r.version, about.Version)
			}
			values, err := yaml.Marshal(r.values)
			if err != nil {
				t.Fatal(err)
			}
			got, err := chart.Render(chart.Options{Release: r.name, Namespace: r.namespace, Values: [][]byte{values}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with the values of the example, the chart has other objects (-want +got):\n%s", diff)
			}
			for _, o := range got {
				if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Namespace" {
					t.Errorf("the chart has %s %s, which the example installs as well", o.GetKind(), o.GetName())
				}
			}
		})
	}
}

// TestTheGitOpsExamplesStateTheirOptions checks what the options of the examples rely on.
func TestTheGitOpsExamplesStateTheirOptions(t *testing.T) {
	restricted := map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}
	app := find(t, example(t, "argocd.yaml"), "Application", "espalier")
	if got := field(app, "spec", "syncPolicy", "syncOptions"); !cmp.Equal(got, []any{"CreateNamespace=true", "ServerSideApply=true"}) {
		t.Errorf("Argo CD has the options %v", got)
	}
	if got := field(app, "spec", "syncPolicy", "managedNamespaceMetadata", "labels"); !cmp.Equal(got, any(restricted)) {
		t.Errorf("Argo CD labels the namespace %v", got)
	}
	flux := example(t, "flux.yaml")
	if got := find(t, flux, "Namespace", namespace); !cmp.Equal(field(got, "metadata", "labels"), any(restricted)) {
		t.Errorf("Flux labels the namespace %v", got.GetLabels())
	}
	// The kinds exist once the Kustomization is ready, and stay without it.
	crds := find(t, flux, "Kustomization", "espalier-crds")
	if field(crds, "spec", "wait") != true || field(crds, "spec", "prune") != false {
		t.Errorf("the Kustomization of the CustomResourceDefinitions has %v", crds.Object["spec"])
	}
	// Argo CD prunes what is no longer in the repository, and must not delete objects of users with it.
	for _, c := range installed(t) {
		for name, value := range map[string]string{
			"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled", "helm.sh/resource-policy": "keep",
		} {
			if got := c.GetAnnotations()[name]; got != value {
				t.Errorf("%s has the annotation %s: %q", c.GetName(), name, got)
			}
		}
	}
}

// everything is settings with which all CustomResourceDefinitions are installed.
var everything = []string{"providers.aws.enabled=true", "providers.postgresql.enabled=true"}

func installed(t *testing.T, settings ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := chart.CRDs(chart.Options{Namespace: namespace, Set: append(slices.Clone(everything), settings...)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheControllersKeepCRDsOfGitOps applies the CustomResourceDefinitions as a GitOps tool does, first: the controllers install
// nothing more, and do not regard them as another program's.
func TestTheControllersKeepCRDsOfGitOps(t *testing.T) {
	config := testkit.Server(t)
	cluster, crds := testkit.NewCluster(t, config), installed(t)
	for _, c := range crds {
		labels := map[string]string{"app.kubernetes.io/instance": "espalier"} // by which Argo CD tracks
		c.SetLabels(labels)
		if _, err := cluster.Resource(t, c.GroupVersionKind(), "").Apply(t.Context(), c.GetName(), c, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := server.Check(t.Context(), server.ManagerOptions{
		Options: manager.Options{Config: config}, Settings: server.Settings{Usages: true},
		Providers: []managed.Provider{aws.Provider(), postgresql.Provider(postgresql.Options{})},
	})
	if err != nil || found.Refused != nil {
		t.Fatal(err, found.Refused)
	}
	if len(found.Installs) != len(crds) {
		t.Errorf("the controllers install %d CustomResourceDefinitions, not %d", len(found.Installs), len(crds))
	}
	for _, s := range found.Installs {
		if s.Action != install.Unchanged {
			t.Errorf("%s: %s", s.Wanted.GetName(), s.Action)
		}
	}
}

// TestTheCRDsFollowTheValues prints only what an installation with the values installs.
func TestTheCRDsFollowTheValues(t *testing.T) {
	all := len(installed(t))
	for setting, group := range map[string]string{
		"controllers.dialects={composition}": "kro.run", "controllers.dialects={graph}": "apiextensions.crossplane.io", "controllers.usages=false": "protection.crossplane.io",
		"providers.aws.enabled=false": "aws.espalier.dev", "providers.postgresql.enabled=false": "postgresql.espalier.dev",
	} {
		less := installed(t, setting)
		if len(less) >= all || slices.ContainsFunc(less, func(c *unstructured.Unstructured) bool { return field(c, "spec", "group") == group }) {
			t.Errorf("with %s, there are %d of %d CustomResourceDefinitions, also of the group %s", setting, len(less), all, group)
		}
	}
	more := installed(t, "controllers.packages.enabled=true")
	if len(more) <= all || !slices.ContainsFunc(more, func(c *unstructured.Unstructured) bool { return c.GetName() == "providers.pkg.crossplane.io" }) {
		t.Errorf("with packages, there are %d CustomResourceDefinitions, and %d without", len(more), all)
	}
	if _, err := chart.CRDs(chart.Options{Namespace: namespace, Set: []string{"controllers.usage=false"}}); err == nil {
		t.Error("a value that does not exist is accepted")
	}
}
