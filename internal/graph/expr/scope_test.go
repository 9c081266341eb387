package expr

import (
	"runtime"
	"testing"
	"weak"

	"github.com/google/cel-go/cel"
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
