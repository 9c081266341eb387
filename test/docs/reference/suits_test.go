package reference

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// samples are the fields of a resource as they can be, by the columns of the first table of
// nodes.md below.
var samples = map[string]string{
	"forEach": "forEach: [{zone: '${schema.spec.zones}'}]", "includeWhen": "includeWhen: ['${true}']", "readyWhen": `readyWhen: ["${READS}"]`,
	"waitFor": "waitFor: {other: {fields: [metadata.uid]}}", "adopt": "adopt: IfUnowned", "conflicts": "conflicts: Refuse",
	"onConflict": "onConflict: Recreate", "allowDataLoss": "onConflict: Recreate\nallowDataLoss: true",
	"driftPolicy": "driftPolicy: Warn", "driftPaths": "driftPolicy: Warn\ndriftPaths: [data]", "externalFields": "externalFields: [data]", "deletionPolicy": "deletionPolicy: Retain", "deleteAfter": "deleteAfter: [other]",
}

// resources are those that the columns of the table are about.
var resources = []struct{ name, text, reads string }{
	{"template", "template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}", "one.metadata.name == 'a'"},
	{"collection", "forEach: [{zone: '${schema.spec.zones}'}]\ntemplate: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}'}, data: {a: b}}", "each.metadata.name == 'a'"},
	{"externalRef", "externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "one.metadata.name == 'a'"},
	{"value", "value: {a: b}", "one.a == 'b'"},
}

// TestFieldsMatchThePage compiles a resource of every sort with every field, and compares
// what is refused with the first table of nodes.md.
func TestFieldsMatchThePage(t *testing.T) {
	p, tried := load(t, "nodes.md"), map[string]bool{}
	for _, r := range p.rows() {
		if r.heading != "Resources" {
			continue
		}
		for _, field := range codes(r.cells[0]) {
			sample, ok := samples[field]
			if !ok {
				continue // what makes the resource what it is
			}
			tried[field] = true
			for i, of := range resources {
				if field == "forEach" && i < 2 {
					continue // with it a template is a collection
				}
				problems := compiled(t, of.text+"\n"+strings.ReplaceAll(sample, "READS", of.reads))
				if suits := r.cells[i+1] == "yes"; suits != (problems == nil) {
					t.Errorf("nodes.md:%d: %s of a %s: the page has the message %q, and the compiler says %v", r.line+1, field, of.name, r.cells[i+1], problems)
				}
			}
		}
	}
	if len(tried) != len(samples) {
		t.Errorf("of %d fields only %v are on the page", len(samples), tried)
	}
}

// compiled is what is wrong with a resource beside another.
func compiled(t *testing.T, resource string) error {
	t.Helper()
	var one v1alpha1.Resource
	if err := yaml.UnmarshalStrict([]byte("id: one\n"+resource), &one); err != nil {
		t.Fatal(err)
	}
	return beside(t, &one)
}
