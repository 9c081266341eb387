package conversion_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// moving is a kind whose fields have moved, split, changed their type and gone.
const moving = `
hub:
  name: v1
  types:
    Container: {name: string | required=true, image: string, probe: string}
    Rule: {from: string, comment: string}
  spec:
    replicas: integer | default=1
    tier: string
    network: {host: string, port: "integer | default=80", mask: string}
    labels: "map[string]string"
    containers: "[]Container | listType=map listMapKey=name"
    rules: "[]Rule"
    flag: boolean
    raw: object
    fresh: {a: string, b: {c: integer}}
version:
  name: v1alpha1
  types:
    Container: {name: string | required=true, image: string, pull: string}
    Rule: {from: string, weight: integer}
  spec:
    size: string | default=small
    host: string
    network: {mask: string, legacy: string}
    labels: "map[string]string"
    containers: "[]Container | listType=map listMapKey=name"
    rules: "[]Rule"
    flag: string
    raw: object
    old: {a: string, b: "[]string"}
conversion:
  to:
    replicas: '${self.spec.size == "large" ? 5 : 1}'
    network: {host: "${self.spec.host}"}
    flag: '${self.spec.?flag.orValue("") == "yes"}'
    tier: '${self.spec.?old.a.orValue("none")}'
  from:
    size: '${self.spec.replicas > 3 ? "large" : "small"}'
    host: ${self.spec.network.host}
    flag: '${self.spec.?flag.orValue(false) ? "yes" : "no"}'
`

// TestARoundTripLosesNothing shows that an object is the same after a way there and back, whatever
// is in it, and that a change on the other side is made beside what is kept.
func TestARoundTripLosesNothing(t *testing.T) {
	var k kind
	parse(t, moving, &k)
	c := k.converter(t)
	versions := []string{"v1", "v1alpha1"}
	specs := map[string]map[string]any{"v1": k.Hub.Spec, "v1alpha1": k.Version.Spec}
	rapid.Check(t, func(rt *rapid.T) {
		from := rapid.SampledFrom(versions).Draw(rt, "from")
		to := versions[1-slices.Index(versions, from)]
		was := object(rt, from, specs[from])
		if rapid.Bool().Draw(rt, "comes from there") {
			was = convert(rt, t, c, object(rt, to, specs[to]), from)
		}
		there := convert(rt, t, c, was, to)
		back := convert(rt, t, c, there, from)
		if diff := cmp.Diff(was, back); diff != "" {
			rt.Fatalf("there and back (-was +is):\n%s\nthere it was\n%s", diff, golden.YAML(t, there))
		}

		// What is carried over may be changed there, and nothing else changes here.
		text := rapid.StringMatching(`[a-z]{1,4}`).Draw(rt, "text")
		for _, o := range []map[string]any{there, was} {
			o["spec"].(map[string]any)["labels"] = map[string]any{"changed": text}
		}
		back = convert(rt, t, c, there, from)
		if diff := cmp.Diff(was["spec"], back["spec"]); diff != "" {
			rt.Fatalf("with a change there (-want +got):\n%s\nthere it was\n%s", diff, golden.YAML(t, there))
		}
	})
}

func convert(rt *rapid.T, t *testing.T, c *conversion.Converter, o map[string]any, to string) map[string]any {
	out, err := c.Convert(o, to)
	if err != nil {
		rt.Fatalf("%v\n%s", err, golden.YAML(t, o))
	}
	return whole(t, out)
}

// object is any object of a version of moving, as the API server would have it.
func object(rt *rapid.T, version string, spec map[string]any) map[string]any {
	fields := fieldsOf(rt, spec, version)
	for name, value := range map[string]any{"replicas": int64(1), "size": "small"} {
		if _, known := spec[name]; known && fields[name] == nil {
			fields[name] = value
		}
	}
	if network, ok := fields["network"].(map[string]any); ok && version == "v1" && network["port"] == nil {
		network["port"] = int64(80)
	}
	return map[string]any{"apiVersion": "kro.run/" + version, "kind": "App", "metadata": map[string]any{"name": "a"}, "spec": fields}
}

func fieldsOf(rt *rapid.T, spec map[string]any, version string) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if rapid.Bool().Draw(rt, name+"?") {
			out[name] = valueOf(rt, name, spec[name], version)
		}
	}
	return out
}

func valueOf(rt *rapid.T, name string, of any, version string) any {
	if fields, ok := of.(map[string]any); ok {
		return fieldsOf(rt, fields, version)
	}
	text := rapid.SampledFrom([]string{"", "a", "b", "large", "small", "yes", "no"})
	shorthand, _ := of.(string)
	switch kind, _, _ := strings.Cut(shorthand, " "); kind {
	case "integer":
		return rapid.Int64Range(0, 9).Draw(rt, name)
	case "boolean":
		return rapid.Bool().Draw(rt, name)
	case "map[string]string":
		return anyMap(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), text, 0, 3).Draw(rt, name))
	case "[]string":
		return anyList(rapid.SliceOfN(text, 0, 3).Draw(rt, name))
	case "object":
		return map[string]any{"x": anyList(rapid.SliceOfN(text, 0, 2).Draw(rt, name)), "y": rapid.Int64().Draw(rt, name+".y")}
	case "[]Container":
		own := map[string]string{"v1": "probe", "v1alpha1": "pull"}[version]
		items := []any{}
		for _, key := range rapid.Permutation([]string{"p", "q", "r"}).Draw(rt, name)[:rapid.IntRange(0, 3).Draw(rt, "count")] {
			item := fieldsOf(rt, map[string]any{"image": "string", own: "string"}, version)
			item["name"] = key
			items = append(items, item)
		}
		return items
	case "[]Rule":
		fields := map[string]any{"from": "string", "comment": "string"}
		if version == "v1alpha1" {
			fields = map[string]any{"from": "string", "weight": "integer"}
		}
		items := []any{}
		for range rapid.IntRange(0, 3).Draw(rt, name) {
			items = append(items, fieldsOf(rt, fields, version))
		}
		return items
	}
	return text.Draw(rt, name)
}

func anyMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for name, value := range m {
		out[name] = value
	}
	return out
}

func anyList(l []string) []any {
	out := []any{}
	for _, value := range l {
		out = append(out, value)
	}
	return out
}
