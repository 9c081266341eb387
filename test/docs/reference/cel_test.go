package reference

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// example of an expression: a row of a table whose third cell is an expression and whose fourth is
// what it gives.
const (
	signatureCell = 0
	exampleCell   = 2
	resultCell    = 3
)

// sample is what the examples on cel.md may read.
const sample = `
metadata: {name: shop, namespace: prod, labels: {team: web}}
spec: {image: "nginx:1.29", replicas: 3, zones: [a, b], ports: {http: 80, https: 443}, note: null}
`

// celRows are the rows of cel.md about functions.
func celRows(t *testing.T) (*page, []row) {
	t.Helper()
	p := load(t, "cel.md")
	var out []row
	for _, r := range p.rows() {
		if len(r.cells) == resultCell+1 {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		t.Fatal("cel.md has no functions")
	}
	return p, out
}

// TestEveryFunctionIsOnThePage compares the functions, operators and macros of expressions, and
// the overloads of functions, with those on cel.md.
func TestEveryFunctionIsOnThePage(t *testing.T) {
	functions, err := expr.Functions()
	if err != nil {
		t.Fatal(err)
	}
	_, rows := celRows(t)
	shown := map[string]bool{} // by what was found
	for _, r := range rows {
		for _, text := range codes(r.cells[signatureCell]) {
			shown[text] = false
		}
	}
	for _, f := range functions {
		if f.Operator || f.Macro {
			if !mark(shown, func(text string) bool { return f.Operator && text == f.Name || f.Macro && showsMacro(text, f.Name) }) {
				t.Errorf("cel.md lacks %s", f.Name)
			}
			continue
		}
		for _, s := range f.Signatures {
			if _, there := shown[s]; !there {
				t.Errorf("cel.md lacks %s", code(s))
			}
			shown[s] = true
		}
	}
	for text, found := range shown {
		if !found {
			t.Errorf("cel.md has %s, which there is not", code(text))
		}
	}
}

// showsMacro reports whether a text shows a call of a macro.
func showsMacro(text, macro string) bool {
	call := regexp.MustCompile(`(^|\.)` + regexp.QuoteMeta(macro) + `\(`)
	return call.MatchString(text)
}

// mark marks what is found, and reports whether anything is.
func mark(shown map[string]bool, matches func(string) bool) bool {
	found := false
	for text := range shown {
		if matches(text) {
			shown[text], found = true, true
		}
	}
	return found
}

// TestExpressionsEvaluateAsThePageShows evaluates the expressions on cel.md.
func TestExpressionsEvaluateAsThePageShows(t *testing.T) {
	p, rows := celRows(t)
	env, err := expr.NewEnv([]expr.Declaration{{Name: "schema"}}, expr.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{"schema": objectOf(t, "the sample", sample).Object}
	changed := false
	for _, r := range rows {
		sources, results := codes(r.cells[exampleCell]), codes(r.cells[resultCell])
		if len(sources) != 1 || !golden.Update() && len(results) != 1 {
			t.Errorf("%s:%d: an example is one expression and one result", p.name, r.line+1)
			continue
		}
		got := evaluated(env, sources[0], vars)
		if len(results) == 1 && results[0] == got {
			continue
		}
		if !golden.Update() {
			t.Errorf("%s:%d: %s gives %s, and the page says %v", p.name, r.line+1, sources[0], got, results)
			continue
		}
		r.cells[resultCell] = code(got)
		p.lines[r.line], changed = "| "+strings.Join(r.cells, " | ")+" |", true
	}
	if changed {
		p.save(t)
	}
}

// evaluated is what an expression gives, as JSON, or why it gives nothing.
func evaluated(env *expr.Env, source string, vars map[string]any) string {
	value, err := evaluate(env, source, vars)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case value == expr.Absent:
		return "(nothing)"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "error: " + err.Error()
	}
	return strings.TrimSpace(b.String())
}

func evaluate(env *expr.Env, source string, vars map[string]any) (any, error) {
	if !strings.Contains(source, "runtime.") {
		p, problems := env.WithProgress().Compile(source, "")
		if problems != nil {
			return nil, problems.Err()
		}
		budget := expr.NewBudget(func() error { return nil }, math.MaxUint64, 0, math.MaxInt)
		budget.SetTime(time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC))
		budget.SetProgress(func(map[string]any) (ready, updated, known bool) { return true, false, true })
		return p.EvalWithin(budget, vars)
	}
	conditions, problems := env.Conditions([]string{"${" + source + "}"}, "schema", []string{"Ready"}, "")
	if problems != nil {
		return nil, problems.Err()
	}
	with := map[string]any{"schema": map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}}}}}
	found, missing := conditions.Eval(nil, with)
	if len(missing) > 0 {
		return nil, missing[0]
	}
	var out []any
	for _, c := range found {
		out = append(out, map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message})
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return out, nil
}

// TestTheSampleIsOnThePage is so that readers see what the examples read.
func TestTheSampleIsOnThePage(t *testing.T) {
	p := load(t, "cel.md")
	for _, b := range p.blocks() {
		if b.info == "yaml sample" {
			if !equal("yaml", b.text(p), sample) {
				t.Errorf("%s: the examples read another instance:\n%s", b.at(p), sample)
			}
			return
		}
	}
	t.Error("cel.md does not show what the examples read")
}
