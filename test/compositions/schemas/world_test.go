package schemas

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/testkit"
)

var (
	definitionKind = v1.GroupVersion.WithKind(v1.DefinitionKind)
	crdKind        = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// testCluster is a test's part of the API server, which knows the dialect's kinds.
type testCluster struct {
	*testkit.Cluster
	group, ns string
}

var installed sync.Once

func newTestCluster(t *testing.T) testCluster {
	t.Helper()
	config := testkit.Server(t)
	w := testCluster{Cluster: testkit.NewCluster(t, config), group: testkit.Group(t), ns: testkit.Namespace(t, config)}
	installed.Do(func() {
		for _, files := range []fs.FS{apiextensions.CRDs, pkg.CRDs, protection.CRDs} {
			w.install(t, files)
		}
	})
	return w
}

func (w testCluster) install(t *testing.T, files fs.FS) {
	t.Helper()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err == nil {
			w.Apply(t, string(raw))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// applyFile applies a file of testdata, in the test's group and namespace. Names that clash with
// those of other tests are made the test's own.
func (w testCluster) applyFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return w.Apply(t, w.expand(string(raw)))
}

func (w testCluster) expand(yaml string) string {
	return strings.NewReplacer("example.org", w.group, "database-postgres", "database."+w.group, "namespace: default", "namespace: "+w.ns).Replace(yaml)
}

// serve makes the kinds of a definition that the API server has, and waits for them.
func (w testCluster) serve(t *testing.T, plural string) *v1.CompositeResourceDefinition {
	t.Helper()
	d, err := xrd.Read(w.Get(t, definitionKind, "", plural+"."+w.group))
	if err != nil {
		t.Fatal(err)
	}
	composite, problems := xrd.CompositeCRD(d, xrd.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	w.establish(t, composite)
	if claim, _ := xrd.ClaimCRD(d, xrd.Options{}); claim != nil {
		w.establish(t, claim)
	}
	return d
}

func (w testCluster) establish(t *testing.T, c *extv1.CustomResourceDefinition) {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	delete(raw, "status")
	o := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	if _, err := w.TryApply(t, o); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	w.Await(t, crdKind, "", c.Name, func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "NonStructuralSchema") == "True" {
			t.Fatalf("%s: %s", c.Name, testkit.ConditionMessage(o, "NonStructuralSchema"))
		}
		if testkit.ConditionStatus(o, "Established") != "True" {
			return errors.New("is not established")
		}
		return nil
	})
}

// at is the value of a field.
func at(t *testing.T, o *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
