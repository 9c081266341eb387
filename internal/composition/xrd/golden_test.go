package xrd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: definition.yaml is a definition as its author writes it;
// want-composite.yaml and want-claim.yaml are its kinds, want-problems what keeps them from
// being served, and want-notes what they will not have.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*/*.txtar", func(t *testing.T, a *golden.Archive) {
		d := definition(t, a.Input["definition.yaml"])
		composite, problems := xrd.CompositeCRD(d, xrd.Options{})
		claim, again := xrd.ClaimCRD(d, xrd.Options{})
		if diff := cmp.Diff(problems, again); diff != "" {
			t.Errorf("the kinds of one definition have different problems: %s", diff)
		}
		for _, product := range []struct{ name, text string }{
			{"composite.yaml", encoded(t, composite)},
			{"claim.yaml", encoded(t, claim)},
			{"problems", lines(problems)},
			{"notes", lines(xrd.Warnings(d))},
		} {
			if product.text != "" {
				a.Record(product.name, product.text)
			}
		}
	})
}

func lines(l diag.List) string {
	if err := l.Err(); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func encoded(t *testing.T, c *extv1.CustomResourceDefinition) string {
	t.Helper()
	if c == nil {
		return ""
	}
	text, _, _ := strings.Cut(golden.YAML(t, c), "status:\n  acceptedNames:")
	return text
}

// definition reads a definition as it is written, with a UID as if it had been stored.
func definition(t *testing.T, text string) *v1.CompositeResourceDefinition {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetUID("d-1")
	d, err := xrd.Read(u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
