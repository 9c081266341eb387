package conversion_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// kind is a kind with two versions, as goldens write it.
type kind struct {
	Hub, Version struct {
		Name        string
		Spec, Types map[string]any
	}
	Conversion conversion.Rules
}

func (k kind) compile(t testing.TB) (*conversion.Pair, diag.List) {
	t.Helper()
	of := func(name string, spec, types map[string]any) conversion.Version {
		s, problems := specschema.Parse(spec, "spec", specschema.Options{Types: types})
		if problems != nil {
			t.Fatal(problems.Err())
		}
		return conversion.Version{Name: name, Spec: s}
	}
	at := conversion.Places{Hub: "spec.schema.spec", Spoke: "spec.schema.versions[0].spec", Rules: "spec.schema.versions[0].conversion"}
	return conversion.Compile(of(k.Hub.Name, k.Hub.Spec, k.Hub.Types), of(k.Version.Name, k.Version.Spec, k.Version.Types), k.Conversion, at)
}

func (k kind) converter(t testing.TB) *conversion.Converter {
	t.Helper()
	pair, problems := k.compile(t)
	if problems != nil {
		t.Fatal(problems.Err())
	}
	converter := conversion.New(schema.GroupKind{Group: "kro.run", Kind: "App"}, k.Hub.Name, map[string]*conversion.Pair{k.Version.Name: pair})
	return converter.WithRules(k.rules(t).Broken)
}

// rules are those of the hub.
func (k kind) rules(t testing.TB) admission.SpecRules {
	t.Helper()
	s, problems := specschema.Parse(k.Hub.Spec, "spec", specschema.Options{Types: k.Hub.Types})
	if problems != nil {
		t.Fatal(problems.Err())
	}
	root := apiextensionsv1.JSONSchemaProps{Type: "object"}
	if s != nil {
		root.Properties = map[string]apiextensionsv1.JSONSchemaProps{"spec": *s}
	}
	c := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: k.Hub.Name, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}},
	}}}
	rules, err := admission.NewSpecRules(c, k.Hub.Name)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestGoldens reads testdata. Each archive is a kind in kind.yaml and the stories of
// objects in story.yaml: each begins with an object and goes on by changes of its spec
// and by conversions. The files that begin with want- are what becomes of it.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var k kind
		parse(t, a.Input["kind.yaml"], &k)
		pair, problems := k.compile(t)
		if problems != nil {
			a.Record("problems", problems.Err().Error())
			return
		}
		if pair.IsIdentity() {
			a.Record("same", "there is nothing to convert")
		}
		var stories map[string][]step
		parse(t, a.Input["story.yaml"], &stories)
		for _, name := range slices.Sorted(maps.Keys(stories)) {
			a.Record(name, convertStory(t, k.converter(t), stories[name]))
		}
	})
}

// step is one step of a story: exactly one of its fields is set.
type step struct {
	Object map[string]any
	Set    map[string]any
	To     string
}

func convertStory(t *testing.T, c *conversion.Converter, story []step) string {
	var (
		b strings.Builder
		o map[string]any
	)
	for _, s := range story {
		switch {
		case s.Object != nil:
			o = whole(t, s.Object)
		case s.Set != nil:
			spec, _ := o["spec"].(map[string]any)
			merge(spec, whole(t, s.Set))
			fmt.Fprintf(&b, "set %s\n", oneLine(t, s.Set))
		default:
			before := golden.YAML(t, o)
			converted, err := c.Convert(o, s.To)
			if diff := cmp.Diff(before, golden.YAML(t, o)); diff != "" {
				t.Errorf("what is converted has changed:\n%s", diff)
			}
			if err != nil {
				fmt.Fprintf(&b, "error: %v\n", err)
				return b.String()
			}
			o = whole(t, converted)
			fmt.Fprintf(&b, "%s\n", golden.YAML(t, o))
		}
	}
	return b.String()
}

// merge changes fields; null takes one away.
func merge(into, change map[string]any) {
	for name, value := range change {
		below, isMap := value.(map[string]any)
		under, wasMap := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isMap && wasMap:
			merge(under, below)
		default:
			into[name] = value
		}
	}
}

// whole is an object as a request brings it, sharing nothing.
func whole(t testing.TB, v map[string]any) map[string]any {
	t.Helper()
	raw, err := utiljson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func oneLine(t testing.TB, v any) string {
	t.Helper()
	raw, err := utiljson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
