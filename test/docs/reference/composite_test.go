package reference

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/program/functions"
)

// scopeOf has the scopes of kinds: nothing else exists around a composite that was just made.
func scopeOf(need plan.Need) plan.Lookup {
	return plan.Lookup{Namespaced: need.Scope && !unnamespaced[need.Kind.Kind]}
}

// runComposite composes a composite by a composition whose functions are part of the program.
func runComposite(t *testing.T, e example) result {
	t.Helper()
	first := e.blocks[0]
	definition, err := xrd.Read(objectOf(t, first.at(e.page), first.text(e.page)))
	if err != nil {
		t.Fatalf("%s: %v", first.at(e.page), err)
	}
	kind, problems := xrd.CompositeCRD(definition, xrd.Options{})
	if problems != nil {
		t.Fatalf("%s: %v", first.at(e.page), problems.Err())
	}
	builtin := &pipeline.Functions{}
	functions.Register(builtin)
	composer := &composite.Composer{Snapshot: xrd.Snapshot{Definition: definition}, Runner: builtin, Now: func() time.Time { return began }}
	var desired plan.Desired
	out := result{}
	for _, b := range e.blocks[1:] {
		text := b.text(e.page)
		switch b.info {
		case "yaml composition":
			var c v1.Composition
			decode(t, b.at(e.page), text, &c)
			if problems := xrd.ValidateComposition(&c); problems != nil {
				t.Fatalf("%s: %v", b.at(e.page), problems.Err())
			}
			if unknown := xrd.UnknownFunctions(&c, slices.Collect(maps.Keys(functions.BuiltIn()))); unknown != nil {
				t.Fatalf("%s: %v", b.at(e.page), unknown.Err())
			}
			composer.Compositions = []*v1.Composition{&c}
			composer.Revisions = []*v1.CompositionRevision{xrd.NextRevision(&c, nil).Create}
		case "yaml instance":
			o := objectOf(t, b.at(e.page), text)
			o.SetUID("instance")
			whole := kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			defaulted(t, &whole, o)
			if desired, err = instance.ComposeReading(t.Context(), composer, plan.Facts{Instance: o, Now: began}, scopeOf); err != nil {
				t.Fatal(err)
			}
			if desired.Problem.Reason != "" {
				t.Fatalf("%s: %s", b.at(e.page), desired.Problem.Message)
			}
		case "yaml objects":
			var all []any
			for _, n := range desired.Nodes {
				if n.Object != nil {
					if len(n.Object.GetAnnotations()) == 0 {
						n.Object.SetAnnotations(nil)
					}
					all = append(all, n.Object.Object)
				}
			}
			out[b] = encode(t, all...)
		default:
			t.Fatalf("%s: %q has no meaning after a definition of composites", b.at(e.page), b.info)
		}
	}
	return out
}

// TestFieldsOfCompositesAreCurrent compares the tables of what the machinery adds to composites
// and claims with the kinds that are made of a definition.
func TestFieldsOfCompositesAreCurrent(t *testing.T) {
	for _, table := range []struct {
		name  string
		scope v1.Scope
		claim bool
	}{
		{"fields of composites", v1.NamespacedScope, false},
		{"fields of composites of scope LegacyCluster", v1.LegacyClusterScope, false},
		{"fields of claims", v1.LegacyClusterScope, true},
	} {
		t.Run(table.name, func(t *testing.T) {
			d := &v1.CompositeResourceDefinition{}
			d.Name = "things.example.org"
			d.Spec.Group, d.Spec.Scope = "example.org", table.scope
			d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", Plural: "things"}
			d.Spec.Versions = []v1.DefinitionVersion{{Name: "v1", Served: true, Referenceable: true, Schema: &v1.DefinitionSchema{
				OpenAPIV3Schema: runtime.RawExtension{Raw: []byte(`{"type": "object"}`)},
			}}}
			kind := xrd.CompositeCRD
			if table.claim {
				d.Spec.ClaimNames = &apiextensionsv1.CustomResourceDefinitionNames{Kind: "ThingClaim", Plural: "thingclaims"}
				kind = xrd.ClaimCRD
			}
			c, problems := kind(d, xrd.Options{})
			if problems != nil {
				t.Fatal(problems.Err())
			}
			text := fieldTable(t, c.Spec.Versions[0].Schema.OpenAPIV3Schema, "spec", "status")
			load(t, "composition.md").generated(t, table.name, withoutProgress(text))
		})
	}
}

// withoutProgress leaves out what the table of an instance's status has as well.
func withoutProgress(table string) string {
	var out []string
	for line := range strings.Lines(table) {
		shared := false
		for _, field := range []string{"waiting", "deletion", "pruning", "problems", "skipped"} {
			at := "| `status." + field
			shared = shared || strings.HasPrefix(line, at+"`") || strings.HasPrefix(line, at+"[") || strings.HasPrefix(line, at+".")
		}
		if !shared {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
