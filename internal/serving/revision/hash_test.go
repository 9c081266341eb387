package revision_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

func spec(change func(*v1alpha1.DefinitionSpec)) *v1alpha1.DefinitionSpec {
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	out := &v1alpha1.DefinitionSpec{
		Schema: &v1alpha1.Schema{Kind: "Box", APIVersion: "v1alpha1", Spec: raw(`{"a":"string","b":"integer"}`)},
		Resources: []*v1alpha1.Resource{
			{ID: "one", Template: raw(`{"kind":"ConfigMap","data":{"n":1.0}}`), NodeOptions: v1alpha1.NodeOptions{ReadyWhen: []string{"${x}", "${y}"}}},
			{ID: "two", Template: raw(`{"kind":"ConfigMap"}`), NodeOptions: v1alpha1.NodeOptions{ForEach: []v1alpha1.ForEachDimension{{"a": "${x}"}, {"b": "${y}"}}}},
		},
	}
	if change != nil {
		change(out)
	}
	return out
}

func TestHash(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.DefinitionSpec)
		same   bool
	}{
		"A pin is the same":       {"it says how revisions are used", func(s *v1alpha1.DefinitionSpec) { n := int64(3); s.Revision = &n }, true},
		"So is a rollout":         {"as above", func(s *v1alpha1.DefinitionSpec) { s.Rollout = &v1alpha1.Rollout{Paused: true} }, true},
		"So is how many are kept": {"as above", func(s *v1alpha1.DefinitionSpec) { n := int32(3); s.RevisionHistoryLimit = &n }, true},
		"So is what instances may override": {"a rollback must not loosen it", func(s *v1alpha1.DefinitionSpec) {
			s.InstanceOverrides = &v1alpha1.InstanceOverrides{Revision: v1alpha1.OverrideAllow}
		}, true},
		"So is another order of the resources":   {"it has no meaning", func(s *v1alpha1.DefinitionSpec) { s.Resources[0], s.Resources[1] = s.Resources[1], s.Resources[0] }, true},
		"So is another order of conditions":      {"all must hold", func(s *v1alpha1.DefinitionSpec) { s.Resources[0].ReadyWhen = []string{"${y}", "${x}"} }, true},
		"So are other white space and key order": {"it is JSON", func(s *v1alpha1.DefinitionSpec) { s.Schema.Spec.Raw = []byte(` { "b": "integer", "a" : "string" } `) }, true},
		"So are defaults that are written out":   {"the API server writes them", func(s *v1alpha1.DefinitionSpec) { s.Schema.Group, s.Schema.Scope = "kro.run", "Namespaced" }, true},
		"Another field is another":               {"instances change", func(s *v1alpha1.DefinitionSpec) { s.Schema.Spec.Raw = []byte(`{"a":"string"}`) }, false},
		"Another number is another": {"1.0 isn't 1 to a template", func(s *v1alpha1.DefinitionSpec) {
			s.Resources[0].Template.Raw = []byte(`{"kind":"ConfigMap","data":{"n":1}}`)
		}, false},
		"Another order of iterators is another":   {"the last turns fastest", func(s *v1alpha1.DefinitionSpec) { f := s.Resources[1].ForEach; f[0], f[1] = f[1], f[0] }, false},
		"What limits a deletion is another":       {"instances carry it", func(s *v1alpha1.DefinitionSpec) { s.Deletion = &v1alpha1.Deletion{} }, false},
		"A template that is no JSON is different": {"nothing is passed over", func(s *v1alpha1.DefinitionSpec) { s.Resources[0].Template.Raw = []byte(`{`) }, false},
	}
	for name, tc := range cases {
		before := spec(nil)
		if same := revision.Hash(spec(tc.change)) == revision.Hash(before); same != tc.same {
			t.Errorf("%s: %s: same is %t", name, tc.reason, same)
		}
		if revision.Hash(before) != revision.Hash(spec(nil)) {
			t.Error("a hash changes what it is of")
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 246)
	cases := map[string]struct {
		of     object.Definition
		number int64
		want   string
	}{
		"The dialect's":                     {object.Definition{Name: "shop"}, 1, "shop-r00001"},
		"Of a ResourceGroup":                {object.Definition{Name: "shop", Namespace: "team"}, 12, "team.shop-g00012"},
		"Not that of one that is called so": {object.Definition{Name: "team.shop"}, 12, "team.shop-r00012"},
		"A number may be longer":            {object.Definition{Name: "shop"}, 1234567, "shop-r1234567"},
		"As long as may be":                 {object.Definition{Name: long}, 1, long + "-r00001"},
	}
	for name, tc := range cases {
		if got := revision.Name(tc.of, tc.number); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	seen := map[string]bool{}
	for _, name := range []string{long + "bc", long + "bd", long[:220] + strings.Repeat(".a", 16), long[:221] + strings.Repeat(".a", 16)} {
		got := revision.Name(object.Definition{Name: name}, 1)
		if len(got) > 253 || strings.Contains(got, ".-") || seen[got] {
			t.Errorf("%s: is no name, or another's", got)
		}
		seen[got] = true
	}
}
