package expr

import (
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// secretEnv declares a Secret, an object that is filled from one, and a value that is not.
func secretEnv(t testing.TB) (*Env, func(string) *Secrecy) {
	t.Helper()
	text := spec.StringProperty()
	secret := &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"metadata": {SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
			"name": *text, "labels": *spec.MapProperty(text), "annotations": *spec.MapProperty(text),
		}}},
		"data": *spec.MapProperty(spec.StrFmtProperty("byte")), "type": *text,
	}}}
	env, err := NewEnv([]Declaration{
		{Name: "db", Schema: secret}, {Name: "dbs", Schema: secret, List: true}, {Name: "untyped"}, {Name: "plain"},
		{Name: "names", Type: cel.ListType(cel.StringType)},
	}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	of := SecretFields(map[string]*Secrecy{
		"data":     SecretEntries(Secret("db.data")),
		"metadata": SecretFields(map[string]*Secrecy{"annotations": SecretEntries(Secret("db.metadata.annotations"))}),
	})
	values := map[string]*Secrecy{"db": of, "untyped": of, "dbs": SecretItems(of)}
	return env, func(name string) *Secrecy { return values[name] }
}

func TestSecrecyOfExpressions(t *testing.T) {
	env, values := secretEnv(t)
	cases := map[string]map[string]string{
		"The value of a key, however it is reached, and all that is computed from it": {
			`db.data.password`:                           "db.data",
			`db.data["password"]`:                        "db.data",
			`db.data[?"password"].orValue(b"")`:          "db.data",
			`db.?data.?password`:                         "db.data",
			`db.data[plain.key]`:                         "db.data",
			`string(db.data.password)`:                   "db.data",
			`"a" + string(db.data.password) + "b"`:       "db.data",
			`base64.encode(db.data.password)`:            "db.data",
			`hash.sha256(string(db.data.password))`:      "db.data",
			`size(db.data.password)`:                     "db.data",
			`db.data.password.size() > 8`:                "db.data",
			`string(db.data.password).split("")[0]`:      "db.data",
			`string(db.data.password).lowerAscii()`:      "db.data",
			`json.marshal(db)`:                           "db.data",
			`json.unmarshal(string(db.data.all)).public`: "db.data",
			`has(json.unmarshal(string(db.data.a)).b)`:   "db.data",
			`url(string(db.data.url)).getHost()`:         "db.data",
			`db.metadata.annotations["a/b"]`:             "db.metadata.annotations",
			`plain.map[string(db.data.key)]`:             "db.data",
			`dbs[0].data.password`:                       "db.data",
			`dbs.map(s, string(s.data.password)).join()`: "db.data",
		},
		"Whole objects and parts that contain data": {
			`db`: "db.data", `db.data`: "db.data", `db.metadata`: "db.metadata.annotations", `dbs`: "db.data", `dyn(db)`: "db.data",
			`{"a": {"b": db.data.password}}`: "db.data", `[db.data.password]`: "db.data", `[[1], [db.data.password]]`: "db.data",
			`{"a": db}.a.data.b`:          "db.data",
			`plain.labels.merge(db.data)`: "db.data",
		},
		"What depends on a value": {
			`string(db.data.mode) == "prod"`:                                   "db.data",
			`string(db.data.mode) == "prod" ? "a" : "b"`:                       "db.data",
			`db.data.mode == b"" || plain.x`:                                   "db.data",
			`!(db.data.mode == b"")`:                                           "db.data",
			`string(db.data.mode) in ["a"]`:                                    "db.data",
			`"x" in db.data.map(k, string(db.data[k]))`:                        "db.data",
			`names.filter(n, n == string(db.data.name))`:                       "db.data",
			`names.filter(n, n == string(db.data.name)).size()`:                "db.data",
			`names.exists(n, n == string(db.data.name))`:                       "db.data",
			`names.all(n, n != string(db.data.name))`:                          "db.data",
			`db.data.exists(k, db.data[k] == b"x")`:                            "db.data",
			`names.sortBy(n, n + string(db.data.name))`:                        "db.data",
			`{string(db.data.name): 1}`:                                        "db.data",
			`{string(db.data.name): 1}.map(k, k)`:                              "db.data",
			`{string(db.data.name): 1}.size()`:                                 "db.data",
			`names.transformMapEntry(i, n, {n + string(db.data.x): i})`:        "db.data",
			`db.metadata.name.matches(string(db.data.pattern))`:                "db.data",
			`cel.bind(p, dyn(db.data.password), p != null)`:                    "db.data",
			`optional.ofNonZeroValue(db.data.x).hasValue()`:                    "db.data",
			`(db.data.x == b"" ? optional.of(1) : optional.none()).hasValue()`: "db.data",
		},
		"Through the variables of macros": {
			`cel.bind(p, db.data.password, string(p) + "!")`:                             "db.data",
			`cel.bind(s, db, cel.bind(d, s.data, d.a))`:                                  "db.data",
			`[db.data.password].map(p, string(p))`:                                       "db.data",
			`db.data.map(k, db.data[k])`:                                                 "db.data",
			`db.data.transformList(k, v, string(v))`:                                     "db.data",
			`db.data.transformMap(k, v, string(v))`:                                      "db.data",
			`db.data.transformMapEntry(k, v, {string(v): k})`:                            "db.data",
			`[[db.data.a]].map(l, l.map(x, x))`:                                          "db.data",
			`names.map(n, {"name": n, "password": db.data.password}).map(e, e.password)`: "db.data",
			`db.data.?password.optMap(p, string(p))`:                                     "db.data",
			`names.map(n, cel.bind(x, db, {"deep": {"er": x}})).map(o, o.deep.er.data)`:  "db.data",
		},
		"What is not secret": {
			`db.metadata.name`: "", `db.metadata.labels.a`: "", `db.type`: "",
			`has(db.data.password)`: "", `has(db.data)`: "", `"password" in db.data`: "", `size(db.data)`: "", `db.data.size() > 0`: "",
			`db.data.?password.hasValue()`: "", `db.data[?"password"].hasValue()`: "", `untyped.data.password != null`: "", `db.data.?a == optional.none()`: "",
			`db != null`: "", `cel.bind(d, db, d != null)`: "",
			`"password" in untyped.data`: "", `has(untyped.data.password)`: "", `untyped.data.map(k, k)`: "",
			`db.data.map(k, k)`: "", `db.data.map(k, k).join(",")`: "", `db.data.exists(k, k == "a")`: "", `db.data.all(k, k != "")`: "",
			`db.data.transformList(k, v, k)`: "", `db.data.transformMap(k, v, 1)`: "",
			`size([db.data.a, db.data.b])`: "", `has(db.data.a) ? 1 : 2`: "",
			`{"a": db.data.a, "b": 1}.b`: "", `{"a": db, "b": 1}.b`: "", `{"a": {"b": db}}.map(k, k)`: "", `cel.bind(s, db, s.metadata.name)`: "",
			`dbs.map(s, s.metadata.name)`: "", `dbs.size()`: "", `dbs[0].metadata.name`: "", `dbs.filter(s, has(s.data.a)).map(s, s.metadata.name)`: "",
			`names.map(n, {"name": n, "password": db.data.password}).map(e, e.name)`: "", `plain.anything`: "", `plain.map(x, x)`: "",
		},
	}
	for reason, expressions := range cases {
		t.Run(reason, func(t *testing.T) {
			for source, want := range expressions {
				p, problems := env.Compile(source, "")
				if p == nil {
					t.Errorf("%s: %v", source, problems)
					continue
				}
				got := ""
				if secrecy := p.Secrecy(values); secrecy != nil {
					got = secrecy.Source()
				}
				if got != want {
					t.Errorf("%s: want %q, got %q", source, want, got)
				}
			}
		})
	}
}

// Values that contain others several times would have exponentially many parts.
func TestPartsOfASecrecyAreBounded(t *testing.T) {
	s := SecretFields(map[string]*Secrecy{"a": Secret("x"), "b": Secret("y")})
	for range 100 {
		s = SecretFields(map[string]*Secrecy{"a": s, "b": SecretItems(s), "c": s.Join(SecretEntries(s))})
	}
	if s.parts > maxSecretParts+1 || s.Source() != "x" || s.Field("none") == nil {
		t.Errorf("%d parts of %s", s.parts, s.Source())
	}
}
