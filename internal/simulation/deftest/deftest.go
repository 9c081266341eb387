// Package deftest tests definitions with fixtures: a test applies objects in an empty cluster, gives objects
// the states that other controllers would, step by step, and says what there must be after each step. The
// steps are carried out elsewhere (package server), by the controllers themselves.
// See docs/design/0016-the-controllers-without-effect.md.
//
// Pure: it decides from values alone.
package deftest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/object/bounded"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// APIVersion and Kind are those of test files.
const (
	APIVersion = "test.espalier.dev/v1alpha1"
	Kind       = "Test"
)

// FileSuffix is how the names of test files end, and ExpectedSuffix, in its place, how those of what is
// expected end.
const (
	FileSuffix     = ".test.yaml"
	ExpectedSuffix = ".expected.yaml"
)

// Test is the content of a test file.
type Test struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	// Files have the definitions, and further objects that exist from the beginning. Their paths are
	// relative to the test file.
	Files []string `json:"files,omitempty"`
	// Namespace is that of objects that name none; by default "default".
	Namespace string `json:"namespace,omitempty"`
	Steps     []Step `json:"steps"`
}

// Metadata names a test.
type Metadata struct {
	Name string `json:"name"`
}

// Step is what happens, in this order, and what must be true once the controllers are idle.
type Step struct {
	Name string `json:"name,omitempty"`
	// Apply are objects as a user applies them, Observe are states of objects as other controllers set
	// them, and Delete are objects that a user deletes.
	Apply   []Object `json:"apply,omitempty"`
	Observe []Object `json:"observe,omitempty"`
	Delete  []Object `json:"delete,omitempty"`
	// Expect are objects that must exist, with the fields that they have here, and Absent are objects
	// that must not.
	Expect []Object `json:"expect,omitempty"`
	Absent []Object `json:"absent,omitempty"`
	// Waits are nodes that must wait, with a part of what they wait for.
	Waits []Wait `json:"waits,omitempty"`
	// Problems are parts of the problems that there must be. Every other problem fails the test.
	Problems []string `json:"problems,omitempty"`
}

// Object is an object, or a part of one.
type Object = map[string]any

// Wait is a node of an instance that must wait.
type Wait struct {
	// Instance is the instance as Kind namespace/name; any if it is empty.
	Instance string `json:"instance,omitempty"`
	Node     string `json:"node"`
	For      string `json:"for,omitempty"`
}

// Parse reads a test file. The error has all problems.
func Parse(text string) (*Test, error) {
	t := &Test{}
	if err := bounded.Check([]byte(text), source.MaxBytes); err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	problems, err := json.UnmarshalStrict(raw, t)
	if err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	documents, unread := source.Parse(text)
	for _, p := range unread {
		problems = append(problems, errors.New(p.String()))
	}
	if len(documents) > 1 {
		problems = append(problems, fmt.Errorf("a file has one test, and this one has %d documents; make a file of each", len(documents)))
	}
	if t.APIVersion != APIVersion || t.Kind != Kind {
		problems = append(problems, fmt.Errorf("apiVersion and kind must be %s and %s", APIVersion, Kind))
	}
	if len(t.Steps) == 0 {
		problems = append(problems, errors.New("steps: there must be one"))
	}
	if len(t.Steps) > maxSteps {
		problems = append(problems, fmt.Errorf("steps: there are %d, and at most %d are possible", len(t.Steps), maxSteps))
	}
	for i, s := range t.Steps {
		for field, objects := range map[string][]Object{"apply": s.Apply, "observe": s.Observe, "delete": s.Delete, "expect": s.Expect, "absent": s.Absent} {
			for j, o := range objects {
				if u := (&unstructured.Unstructured{Object: o}); u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
					problems = append(problems, fmt.Errorf("steps[%d].%s[%d]: an object must have apiVersion, kind and metadata.name", i, field, j))
				}
			}
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return t, errors.Join(problems...)
}

// maxSteps bounds the steps of a test.
const maxSteps = 100

// Title names a step.
func (t *Test) Title(i int) string {
	if t.Steps[i].Name != "" {
		return t.Steps[i].Name
	}
	return fmt.Sprintf("step %d", i+1)
}

// HasExpectations says whether a step says what must be true.
func (t *Test) HasExpectations() bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool {
		return len(s.Expect)+len(s.Absent)+len(s.Waits)+len(s.Problems) > 0
	})
}

// State is what there is after a step.
type State struct {
	// Objects are all objects, and Rendered the instances among them with what they consist of.
	Objects  []*unstructured.Unstructured
	Rendered []preview.Rendered
	Problems []preview.Problem
}

// Check lists what is not as a step expects it. Objects that name no namespace are in the given one.
func (s Step) Check(state State, namespace string) []string {
	var out []string
	for _, o := range s.Expect {
		wanted := &unstructured.Unstructured{Object: o}
		found := find(state.Objects, wanted, namespace)
		if found == nil {
			out = append(out, object.KeyOf(wanted).String()+": does not exist")
			continue
		}
		for _, difference := range subset("", withoutIdentity(o), found.Object) {
			out = append(out, object.KeyOf(found).String()+": "+difference)
		}
	}
	for _, o := range s.Absent {
		if found := find(state.Objects, &unstructured.Unstructured{Object: o}, namespace); found != nil {
			out = append(out, object.KeyOf(found).String()+": exists")
		}
	}
	for _, w := range s.Waits {
		if problem := w.check(state.Rendered); problem != "" {
			out = append(out, problem)
		}
	}
	return append(out, s.checkProblems(state.Problems)...)
}

// find returns an object of the kind and name, or nil. A namespace of a cluster-scoped object counts for nothing.
func find(all []*unstructured.Unstructured, wanted *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	for _, o := range all {
		if o.GroupVersionKind() == wanted.GroupVersionKind() && o.GetName() == wanted.GetName() &&
			slices.Contains([]string{"", cmp.Or(wanted.GetNamespace(), namespace)}, o.GetNamespace()) {
			return o
		}
	}
	return nil
}

func withoutIdentity(o Object) Object {
	out := (&unstructured.Unstructured{Object: o}).DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "namespace")
	return out.Object
}

// subset lists where a value lacks what is wanted of it. A map must have the wanted keys; a list of maps with
// a name, type, id or node must have those; other lists and values must be equal.
func subset(at object.Path, wanted, got any) []string {
	switch wanted := wanted.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return []string{mismatch(at, wanted, got)}
		}
		var out []string
		for _, key := range sortedKeys(wanted) {
			value, there := m[key]
			if !there && wanted[key] != nil {
				out = append(out, fmt.Sprintf("%s is absent, want %s", at.Field(key), encode(wanted[key])))
				continue
			}
			out = append(out, subset(at.Field(key), wanted[key], value)...)
		}
		return out
	case []any:
		list, ok := got.([]any)
		if !ok {
			return []string{mismatch(at, wanted, got)}
		}
		return subsetOfList(at, wanted, list)
	}
	if !equal(wanted, got) {
		return []string{mismatch(at, wanted, got)}
	}
	return nil
}

// listKeys are the fields by which items of lists are found.
var listKeys = []string{"name", "type", "id", "node"}

func subsetOfList(at object.Path, wanted, got []any) []string {
	for _, field := range listKeys {
		if !allHave(wanted, field) {
			continue
		}
		var out []string
		for _, item := range wanted {
			key := item.(map[string]any)[field]
			path := at + object.Path(fmt.Sprintf("[%s=%v]", field, key))
			i := slices.IndexFunc(got, func(o any) bool { m, _ := o.(map[string]any); return m[field] == key })
			if i < 0 {
				out = append(out, path.String()+" is absent")
				continue
			}
			out = append(out, subset(path, item, got[i])...)
		}
		return out
	}
	if len(wanted) != len(got) {
		return []string{mismatch(at, wanted, got)}
	}
	var out []string
	for i := range wanted {
		out = append(out, subset(at.Index(i), wanted[i], got[i])...)
	}
	return out
}

// allHave says whether all items of a list are maps with a text in a field.
func allHave(list []any, field string) bool {
	for _, item := range list {
		m, _ := item.(map[string]any)
		if _, ok := m[field].(string); !ok {
			return false
		}
	}
	return len(list) > 0
}

func mismatch(at object.Path, wanted, got any) string {
	return fmt.Sprintf("%s is %s, want %s", at, encode(got), encode(wanted))
}

func (w Wait) check(all []preview.Rendered) string {
	var waits []string
	for _, r := range all {
		name := object.KeyOf(r.Instance).String()
		if w.Instance != "" && w.Instance != name {
			continue
		}
		for _, is := range r.Waits {
			if (is.Node == w.Node || strings.HasPrefix(is.Node, w.Node+"[")) && strings.Contains(is.Message, w.For) {
				return ""
			}
			waits = append(waits, fmt.Sprintf("%s of %s %s", is.Node, name, is.Message))
		}
	}
	text := fmt.Sprintf("node %s does not wait for %q", w.Node, w.For)
	if len(waits) == 0 {
		return text + "; nothing waits"
	}
	return text + "; what waits: " + strings.Join(waits, "; ")
}

func (s Step) checkProblems(problems []preview.Problem) []string {
	var out []string
	met := make([]bool, len(s.Problems))
	for _, p := range problems {
		expected := false
		for i, wanted := range s.Problems {
			if strings.Contains(p.String(), wanted) {
				expected, met[i] = true, true
			}
		}
		if !expected {
			out = append(out, "problem: "+p.String())
		}
	}
	for i, wanted := range s.Problems {
		if !met[i] {
			out = append(out, fmt.Sprintf("there is no problem with %q", wanted))
		}
	}
	return out
}

// Text is a state as a file of expectations has it.
func (s State) Text() (string, error) {
	var b strings.Builder
	for _, r := range s.Rendered {
		text, err := r.YAML()
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	for _, p := range s.Problems {
		b.WriteString("# problem: " + strings.Join(strings.Fields(p.String()), " ") + "\n")
	}
	return b.String(), nil
}
