package reference

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
)

// scopes are places of expressions, and which of the names on cel.md can be read there: the
// instance, another resource, an iterator, each and self.
var scopes = []struct {
	place, text string
	reads       string
}{
	{"template", `template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}"}, data: {a: "${string(dyn(NAME) != null)}"}}`, "schema other zone"},
	{"includeWhen", `includeWhen: ["${dyn(NAME) != null}"]`, "schema other zone"},
	{"readyWhen", `readyWhen: ["${dyn(NAME) != null}"]`, "each"},
	{"rule", `waitFor: {other: {fields: [{path: metadata.uid, rule: "dyn(NAME) != null"}]}}`, "self"},
	{"the first iterator", `forEach: [{zone: "${dyn(NAME) != null ? ['a'] : []}"}]`, "schema other"},
	{"a later iterator", `forEach: [{zone: "${schema.spec.zones}"}, {size: "${dyn(NAME) != null ? ['a'] : []}"}]
template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}-${size}"}}`, "schema other zone"},
}

// TestNamesAreReadWhereThePageLists compiles every name in every place. What cel.md says of that is
// in scopes.
func TestNamesAreReadWhereThePageLists(t *testing.T) {
	for _, s := range scopes {
		for _, name := range []string{"schema", "other", "zone", "each", "self"} {
			var one v1alpha1.Resource
			text := "id: one\n" + strings.ReplaceAll(s.text, "NAME", name)
			if !strings.Contains(text, "\ntemplate:") {
				text += "\ntemplate: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"${zone}\"}}"
			}
			if !strings.Contains(text, "forEach:") {
				text += "\nforEach: [{zone: \"${schema.spec.zones}\"}]"
			}
			if err := yaml.UnmarshalStrict([]byte(text), &one); err != nil {
				t.Fatal(err)
			}
			err := beside(t, &one)
			if reads := strings.Contains(" "+s.reads+" ", " "+name+" "); reads != (err == nil) {
				t.Errorf("%s in %s: %v", name, s.place, err)
			}
		}
	}
}

// beside is what is wrong with a resource beside another.
func beside(t *testing.T, one *v1alpha1.Resource) error {
	t.Helper()
	other := &v1alpha1.Resource{ID: "other"}
	other.Template.Raw = []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}`)
	spec := &v1alpha1.DefinitionSpec{Schema: &v1alpha1.Schema{Kind: "Tried", APIVersion: "v1"}, Resources: []*v1alpha1.Resource{one, other}}
	spec.Schema.Spec.Raw = []byte(`{"zones": "[]string"}`)
	_, problems := graph.Compile(spec, newKinds(t).of(t, graph.UsedKinds(spec)))
	if len(problems) == 0 {
		return nil
	}
	return problems.Err()
}
