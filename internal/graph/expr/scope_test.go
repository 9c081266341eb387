package expr

import (
	"runtime"
	"testing"
	"weak"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
)

// TestProgramsDoNotKeepTheirEnvironment compiles a program, and forgets what has compiled it: only then is the
// environment of CEL garbage. It is made again for what reads the syntax tree of an expression.
func TestProgramsDoNotKeepTheirEnvironment(t *testing.T) {
	program, made := forgotten(t)
	for made.Value() != nil {
		runtime.GC()
	}
	value, err := program.Eval(map[string]any{"a": "x", "b": nil})
	if err != nil || value != "one x" {
		t.Errorf("value %v, error %v", value, err)
	}
	secret := func(name string) *Secrecy {
		if name == "b" {
			return Secret("b")
		}
		return nil
	}
	if program.Secrecy(secret) == nil {
		t.Error("what depends on a secret is none")
	}
	branches := program.recorded()
	if len(branches.branches) != 1 || branches.prog == nil {
		t.Errorf("recorded as %v", branches)
	}
}

func forgotten(t *testing.T) (*Program, weak.Pointer[cel.Env]) {
	p, env := compileIn(t)
	return p, weak.Make(env.cel)
}

func compileIn(t *testing.T) (*Program, *Env) {
	t.Helper()
	env, err := NewEnv([]Declaration{{Name: "a"}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if env, err = env.With(Declaration{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	p, problems := env.Compile(`b == null ? "one " + a : "two"`, "spec")
	if p == nil {
		t.Fatal(problems)
	}
	return p, env
}

// TestEnvironmentsShareTheirFunctions compares what the programs of two definitions keep.
func TestEnvironmentsShareTheirFunctions(t *testing.T) {
	a, _ := compileIn(t)
	b, _ := compileIn(t)
	if a.scope.planner != b.scope.planner {
		t.Error("each definition has functions of its own")
	}
}

// TestACompactScopeIsTheSame compares what expressions find in the types of a scope before and after.
func TestACompactScopeIsTheSame(t *testing.T) {
	s := schemaOf(t, `{type: object, properties: {
		metadata: {type: object, properties: {name: {type: string, description: its name}}},
		spec: {type: object, required: [size], properties: {
			size: {type: integer, description: its size}, plain: {type: string},
			namespace: {type: object, properties: {label: {type: string}, other: {type: object, properties: {a: {type: string}}}}},
			ports: {type: array, items: {type: object, description: a port, properties: {number: {type: integer}}}},
			env: {type: object, additionalProperties: {type: object, properties: {value: {type: string}}}},
			open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}},
			described: {type: object, properties: {any: {x-kubernetes-preserve-unknown-fields: true, description: anything}}}}}}}`)
	sources := []string{
		"x", "x.metadata.name", "x.spec", "x.spec.plain", "x.spec.__namespace__", "x.spec.__namespace__.label", "x.spec.__namespace__.other",
		"x.spec.ports[0]", "x.spec.ports[0].number", "x.spec.env", "x.spec.env['a'].value", "x.spec.open.a", "x.spec.open.b", "x.spec.described.any.b",
		"x.spec.missing", "[x.spec.__namespace__, x.spec.__namespace__]", "untyped.a", "missing",
	}
	fresh := func() (*Env, *Program) {
		env, err := NewEnv([]Declaration{{Name: "x", Schema: s}, {Name: "untyped"}}, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		program, problems := env.Compile("[x.spec.__namespace__.other.a] + x.spec.ports.map(p, string(p.number))", "") // so that some types are known
		if problems != nil {
			t.Fatal(problems.Err())
		}
		return env, program
	}
	found := func(env *Env) (out []string) {
		for _, source := range sources {
			p, problems := env.Compile(source, "")
			if p != nil {
				out = append(out, source+" is of type "+p.Type().String())
			} else {
				out = append(out, source+": "+problems.Err().Error())
			}
			suggestions, _ := env.Suggest(source+".", len(source)+1)
			for _, s := range suggestions {
				out = append(out, source+"."+s.Name+" "+s.Type+" "+s.Doc)
			}
		}
		return out
	}
	env, _ := fresh()
	before := found(env)
	env, program := fresh()
	env.Compact("x", "spec")
	spec, _ := env.vars["x"].object.known("spec")
	if spec.object.declared.properties != nil {
		t.Error("the schema of the field is kept")
	}
	if diff := cmp.Diff(before, found(env)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	ports := []any{map[string]any{"number": int64(80)}}
	names := map[string]any{"other": map[string]any{"a": "b"}}
	value, err := program.Eval(map[string]any{"x": map[string]any{"spec": map[string]any{"ports": ports, "namespace": names}}})
	if diff := cmp.Diff([]any{"b", "80"}, value); diff != "" || err != nil {
		t.Errorf("%v, error %v", diff, err)
	}
	env.Compact("untyped", "spec")
	env.Compact("missing", "spec")
}
