package live

import (
	"io/fs"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/apiextensions"
	"github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	revisions "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// InstalledCRDs are the CustomResourceDefinitions that an engine had installed of its own:
// the kinds that Espalier would install, in the versions that the engine serves, and
// without Espalier's mark.
func InstalledCRDs(t *testing.T, state State) []*unstructured.Unstructured {
	t.Helper()
	if state == KRO {
		return parsed(t, revisions.CRDs, v1alpha1.CRDs)
	}
	out := parsed(t, apiextensions.CRDs, pkg.CRDs, protection.CRDs)
	for _, c := range out {
		if c.GetName() == "environmentconfigs.apiextensions.crossplane.io" {
			drop(t, c, "v1alpha1") // since v2.0
		}
	}
	return out
}

func parsed(t *testing.T, sources ...fs.FS) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, files := range sources {
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(files, path)
			if err == nil {
				out = append(out, testkit.Parse(t, string(raw))...)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// drop takes a version off a CustomResourceDefinition.
func drop(t *testing.T, c *unstructured.Unstructured, version string) {
	t.Helper()
	versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
	var kept []any
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["name"] != version {
			kept = append(kept, v)
		}
	}
	if err := unstructured.SetNestedSlice(c.Object, kept, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
}

// GraphCRD is the CustomResourceDefinition of Graphs as kro installs it: without the fields that only Espalier has.
func GraphCRD(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	c := parsed(t, v1alpha1.GraphCRDs)[0]
	c.SetAnnotations(nil)
	versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	for _, path := range [][]string{{"spec", "properties", "waitForReadiness"}, {"status", "properties", "observedGeneration"}, {"status", "x-kubernetes-preserve-unknown-fields"}} {
		unstructured.RemoveNestedField(version, append([]string{"schema", "openAPIV3Schema", "properties"}, path...)...)
	}
	unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "status", "default")
	if err := unstructured.SetNestedSlice(c.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return c
}
