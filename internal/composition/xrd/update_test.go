package xrd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// legacy is a definition of composites that are claimed.
func legacy() *v1.CompositeResourceDefinition {
	d := &v1.CompositeResourceDefinition{Spec: v1.DefinitionSpec{
		Group:      "acme.example.com",
		Names:      extv1.CustomResourceDefinitionNames{Kind: "XDatabase", Plural: "xdatabases"},
		ClaimNames: &extv1.CustomResourceDefinitionNames{Kind: "Database", Plural: "databases"},
		Versions:   []v1.DefinitionVersion{{Name: "v1alpha1", Served: true}, {Name: "v1", Served: true, Referenceable: true}},
	}}
	d.Name = "xdatabases.acme.example.com"
	return d
}

func TestChanged(t *testing.T) {
	type definition = v1.CompositeResourceDefinition
	cases := map[string]struct {
		reason        string
		before, after func(*definition)
		want          string
	}{
		"Nothing changed": {"", nil, nil, ""},
		"A version came": {
			"kinds grow", nil,
			func(d *definition) { d.Spec.Versions = append(d.Spec.Versions, v1.DefinitionVersion{Name: "v2"}) }, "",
		},
		"The scope is said that was taken for granted": {
			"it is the same", nil, func(d *definition) { d.Spec.Scope = v1.LegacyClusterScope }, "",
		},
		"Claims came": {
			"they may be offered later", func(d *definition) { d.Spec.ClaimNames = nil }, nil, "",
		},
		"Claims went": {
			"there may be some", nil, func(d *definition) { d.Spec.ClaimNames = nil },
			"spec.claimNames: cannot be removed\n",
		},
		"All names changed": {
			"objects are found by them", nil,
			func(d *definition) {
				d.Spec.Group, d.Spec.Scope = "acme.example.org", v1.ClusterScope
				d.Spec.Names.Kind, d.Spec.Names.Singular = "XDb", "xdb"
				d.Spec.ClaimNames.ShortNames = []string{"db"}
			},
			`spec.claimNames: is immutable: it cannot change from Database (databases) to Database (databases, db)
spec.group: is immutable: it cannot change from "acme.example.com" to "acme.example.org"
spec.names: is immutable: it cannot change from XDatabase (xdatabases) to XDb (xdatabases, xdb)
spec.scope: is immutable: it cannot change from "LegacyCluster" to "Cluster"
`,
		},
		"A composition is enforced from now on": {
			"no composition was enforced before", nil,
			func(d *definition) { d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: "a"} }, "",
		},
		"A composition is enforced no longer": {
			"no composite has to change", func(d *definition) { d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: "a"} }, nil, "",
		},
		"Another composition is enforced": {
			"all composites would move at once",
			func(d *definition) { d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: "a"} },
			func(d *definition) { d.Spec.EnforcedCompositionRef = &v1.CompositionReference{Name: "b"} },
			"spec.enforcedCompositionRef.name: is immutable: it cannot change from \"a\" to \"b\"\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := legacy(), legacy()
			if tc.before != nil {
				tc.before(before)
			}
			if tc.after != nil {
				tc.after(after)
			}
			if diff := cmp.Diff(tc.want, lines(xrd.ValidateUpdate(before, after))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
