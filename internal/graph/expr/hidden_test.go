package expr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHiddenEntriesAreReadByTheirNameOnly(t *testing.T) {
	hidden := func(key string, value any) bool {
		return strings.HasPrefix(key, "engine/") || key == "by" && value == "engine"
	}
	object := document(t, `{metadata: {name: a, labels: {app: shop, by: engine, engine/id: "1"}, annotations: {engine/x: y}}, spec: {labels: {engine/id: "2"}}}`)
	for name, schema := range map[string]string{"typed": schemaSchema, "untyped": `{}`} {
		s := schemaOf(t, schema)
		if name == "untyped" {
			s = nil
		}
		env, err := NewEnv([]Declaration{{Name: "one", Schema: s, Hidden: hidden}, {Name: "many", Schema: s, List: true, Hidden: hidden}, {Name: "plain"}}, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		vars := map[string]any{"one": object, "many": []any{object}, "plain": object}
		shop := map[string]any{"app": "shop"}
		for source, want := range map[string]any{
			`one.metadata.labels`:                                        shop,
			`many[0].metadata.labels`:                                    shop,
			`many.map(m, m.metadata.labels)`:                             []any{shop},
			`many.filter(m, true)[0].metadata.labels`:                    shop,
			`many == [one]`:                                              true,
			`one.metadata.labels == {"app": "shop"}`:                     true,
			`{"app": "shop"} == one.metadata.labels`:                     true,
			`size(one.metadata.labels)`:                                  int64(1),
			`one.metadata.labels.map(k, k)`:                              []any{"app"},
			`one.metadata.labels.transformList(k, v, k + v)`:             []any{"appshop"},
			`one.metadata.labels.exists(k, k == "by")`:                   false,
			`one.metadata.labels.merge({"x": "y"})`:                      map[string]any{"app": "shop", "x": "y"},
			`one.metadata.?labels.orValue({}).merge({"x": "y"})`:         map[string]any{"app": "shop", "x": "y"},
			`json.marshal(one.metadata.labels)`:                          `{"app":"shop"}`,
			`json.marshal(many[0].metadata.labels)`:                      `{"app":"shop"}`,
			`cel.bind(m, one.metadata, size(m.labels))`:                  int64(1),
			`[one.metadata.labels][0]`:                                   shop,
			`true ? one.metadata.labels : {}`:                            shop,
			`has(one.metadata.labels)`:                                   true,
			`one.metadata.labels["engine/id"]`:                           "1",
			`one.metadata.labels.by`:                                     "engine",
			`one.metadata.labels[?"engine/id"].orValue("none")`:          "1",
			`"engine/id" in one.metadata.labels`:                         true,
			`many.all(m, m.metadata.labels["engine/id"] == "1")`:         true,
			`size(plain.metadata.labels)`:                                int64(3),
			`plain.spec.labels`:                                          map[string]any{"engine/id": "2"},
			`json.unmarshal(json.marshal(one)).metadata.?labels.?by`:     Absent,
			`json.unmarshal(json.marshal(many))[0].metadata.annotations`: map[string]any{},
		} {
			p, problems := env.Compile(source, "")
			if problems != nil {
				t.Errorf("%s, %s: %v", name, source, problems)
				continue
			}
			got, err := p.Eval(vars)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", name, source, err, diff)
			}
		}
		whole, err := compileOne(t, env).Eval(vars)
		if diff := cmp.Diff(document(t, `{metadata: {name: a, labels: {app: shop}, annotations: {}}, spec: {labels: {engine/id: "2"}}}`), whole); err != nil || diff != "" {
			t.Errorf("%s, the whole object: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if diff := cmp.Diff(document(t, `{metadata: {name: a, labels: {app: shop, by: engine, engine/id: "1"}, annotations: {engine/x: y}}, spec: {labels: {engine/id: "2"}}}`), object); diff != "" {
		t.Errorf("the object has changed (-want +got):\n%s", diff)
	}
}

func compileOne(t *testing.T, env *Env) *Program {
	t.Helper()
	p, problems := env.Compile("one", "")
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}
