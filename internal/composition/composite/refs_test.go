package composite_test

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// Another implementation refers to objects without the names that they have in the
// composition. To add them raises the generation of the composite.
func TestReferencesOfAnotherImplementationStayUntilOneChanges(t *testing.T) {
	const one, two = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-one}}", "{apiVersion: v1, kind: Secret, metadata: {name: x-two}}"
	to := func(kind, name string) xrd.ComposedRef {
		return xrd.ComposedRef{APIVersion: "v1", Kind: kind, Name: name}
	}
	named := to("ConfigMap", "x-one")
	named.ResourceName = "one"
	cases := map[string]struct {
		has   map[string]string
		refer []xrd.ComposedRef
		stays bool
	}{
		"they are to all objects, in another order": {map[string]string{"one": one, "two": two}, []xrd.ComposedRef{to("Secret", "x-two"), to("ConfigMap", "x-one")}, true},
		"one is missing":           {map[string]string{"one": one, "two": two}, []xrd.ComposedRef{to("ConfigMap", "x-one")}, false},
		"one is to something else": {map[string]string{"one": one, "two": two}, []xrd.ComposedRef{to("ConfigMap", "x-one"), to("Secret", "x-three")}, false},
		"an object isn't there":    {map[string]string{"one": one}, []xrd.ComposedRef{to("ConfigMap", "x-one"), to("Secret", "x-two")}, false},
		"one has its name":         {map[string]string{"one": one, "two": two}, []xrd.ComposedRef{named, to("Secret", "x-two")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("a", "x")
			f.wants("one", "{apiVersion: v1, kind: ConfigMap}", yes)
			f.wants("two", "{apiVersion: v1, kind: Secret}", yes)
			for resource, o := range tc.has {
				f.has(resource, o)
			}
			f.refers(tc.refer...)
			written := false
			for _, field := range f.compose(t).Fields {
				written = written || strings.HasSuffix(strings.Join(field.Path, "."), "resourceRefs")
			}
			if written == tc.stays {
				t.Errorf("written: %t", written)
			}
		})
	}
}

func TestWhatAnotherImplementationRefersToKeepsItsName(t *testing.T) {
	to := func(name string) xrd.ComposedRef {
		return xrd.ComposedRef{APIVersion: "v1", Kind: "ConfigMap", Name: name}
	}
	cases := map[string]struct {
		reason string
		wants  []string
		refer  []xrd.ComposedRef
		keeps  bool
	}{
		"The only one of its kind that is missing": {"no other can be meant", []string{"db", "there"}, []xrd.ComposedRef{to("x-there"), to("x-gone")}, true},
		"One of two that are missing":              {"either may be meant", []string{"db", "other", "there"}, []xrd.ComposedRef{to("x-there"), to("x-gone")}, false},
		"Two are referred to":                      {"either may be it", []string{"db", "there"}, []xrd.ComposedRef{to("x-there"), to("x-gone"), to("x-lost")}, false},
		"None is":                                  {"it has never been there", []string{"db", "there"}, []xrd.ComposedRef{to("x-there")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := begin("a", "x")
			for _, resource := range tc.wants {
				f.wants(resource, configMap, yes)
			}
			f.has("there", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-there}}")
			f.refers(tc.refer...)
			for _, node := range f.compose(t).Nodes {
				if node.ID == "db" && (node.Object.GetName() == "x-gone") != tc.keeps {
					t.Errorf("it is called %s: %s", node.Object.GetName(), tc.reason)
				}
			}
		})
	}
}
