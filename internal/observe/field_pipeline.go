package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// FieldPipeline is how the pipeline of a composition comes to the value of a field.
type FieldPipeline struct {
	// Composition is the composition of the composite, with the name and the number of the revision that composes it.
	Composition string `json:"composition,omitempty"`
	Revision    string `json:"revision,omitempty"`
	Number      int64  `json:"number,omitempty"`
	// Steps are the writes to the field in their order: the last one sets its value.
	Steps []FieldStep `json:"steps,omitempty"`
	// Claim is the field of the claim that is copied to a field of its composite.
	Claim *FieldValue `json:"claim,omitempty"`
	// Elsewhere are the steps whose functions run elsewhere, after the last one of Steps. IsElsewhere is true if one of them has set the
	// field: the controllers own it, and the other steps set another value or none.
	Elsewhere   []string `json:"elsewhere,omitempty"`
	IsElsewhere bool     `json:"isElsewhere,omitempty"`
	// Controllers is true for a field that the controllers set on composed resources.
	Controllers bool `json:"controllers,omitempty"`
	// Differs is true if the object has another value than the pipeline sets now.
	Differs bool `json:"differs,omitempty"`
	// Problems are why the pipeline, or a part of it, cannot be run here.
	Problems []string `json:"problems,omitempty"`
}

// FieldStep is one write of a step of a pipeline to a field.
type FieldStep struct {
	Step     string `json:"step"`
	Function string `json:"function"`
	// Place is the field of the composition that writes it, with file, line and column if the composition was read from a file. It is that of
	// the step's input if the function does not say which part of it.
	Place object.Path `json:"place"`
	File  string      `json:"file,omitempty"`
	// What names that part, such as the type of a patch.
	What string `json:"what,omitempty"`
	// Reads are the fields that it reads, and Transforms the values after each transform of these.
	Reads      []FieldRead      `json:"reads,omitempty"`
	Transforms []FieldTransform `json:"transforms,omitempty"`
	// Value is the field's value afterwards, unless it is hidden, as data of Secrets are.
	Value  any  `json:"value,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
}

// FieldRead is a field that a step reads, and where its value comes from in turn.
type FieldRead struct {
	FieldValue `json:",inline"`
	From       *FieldStep  `json:"from,omitempty"`
	Claim      *FieldValue `json:"claim,omitempty"`
}

// FieldTransform is the value after a transform.
type FieldTransform struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// ComposedField is what the explanation of a field in the composition dialect follows from.
type ComposedField struct {
	// Composite is the composite, Claim its claim if it has one, and Children what it consists of.
	Composite, Claim *unstructured.Unstructured
	Children         []*unstructured.Unstructured
	// Revision is the revision that composes it, and Steps are the steps of its pipeline, as they ran with what is observed now.
	Revision *Revision
	Steps    []trace.Step
	// Desired are the composed resources that follow from the pipeline, by their names in it, with what the controllers add to them.
	Desired map[string]map[string]any
	// Problems are why it could not run, or not to its end.
	Problems []string
}

// ExplainComposedField explains a field of a composite or of an object that it consists of.
func ExplainComposedField(o *unstructured.Unstructured, field object.Path, c ComposedField) FieldExplanation {
	path := field.Segments()
	e := FieldExplanation{FieldValue: fieldValue(o, path)}
	instance := report.ObjectOf(c.Composite)
	e.Instance = &instance
	p := &FieldPipeline{Problems: c.Problems}
	e.Pipeline = p
	if c.Revision != nil {
		p.Composition, p.Revision, p.Number = c.Revision.Of.Name, c.Revision.Name, c.Revision.Number
	}
	to := trace.Object{Kind: trace.Composite}
	if instance != e.Object {
		e.Node = inventory.Node(o)
		to = trace.Object{Kind: trace.Composed, Resource: e.Node}
	}
	x := composedField{c}
	if to.Kind == trace.Composite && len(path) > 0 && path[0] != "status" {
		p.Claim = x.claimed(path)
		return e
	}
	desired, problems := lastState(c.Steps)
	p.Problems = append(p.Problems, problems...)
	isSecret := isSecretData(o, path)
	at := placeInState(desired.Of(to), o, path, isSecret)
	x.addWrites(p, to, at, isSecret)
	value, set := trace.At(desired.Of(to), at)
	p.Differs = set && !isSecret && len(p.Steps) > 0 && (!e.Exists || !sameJSON(value, valueAt(o.Object, path)))
	_, added := trace.At(c.Desired[to.Resource], path)
	p.Controllers = to.Kind == trace.Composed && len(p.Steps) == 0 && (added || inventory.IsOwnershipField(e.Field) || inventory.IsComposedMark(o, e.Field))
	p.IsElsewhere = len(p.Elsewhere) > 0 && !p.Controllers && (p.Differs || len(p.Steps) == 0) && slices.ContainsFunc(e.Managers, isOurs)
	return e
}

// lastState is the state after the last step that did not fail, and the problems are those that did.
func lastState(steps []trace.Step) (last trace.State, problems []string) {
	for _, s := range steps {
		if s.Failed != "" {
			problems = append(problems, fmt.Sprintf("step %s fails: %s", s.Name, s.Failed))
		} else {
			last = s.After
		}
	}
	return last, problems
}

// placeInState is the path of an object's field in the desired state, whose lists may have another order. The API server
// moves the stringData of a Secret to its data.
func placeInState(desired map[string]any, o *unstructured.Unstructured, path []any, isSecret bool) []any {
	at := trace.Aligned(desired, o.Object, path)
	if _, set := trace.At(desired, at); isSecret && !set && path[0] == "data" {
		return append([]any{"stringData"}, path[1:]...)
	}
	return at
}

// addWrites adds the writes to a field, and the steps after them that run elsewhere and may have set it as well.
func (x composedField) addWrites(p *FieldPipeline, to trace.Object, at []any, isSecret bool) {
	end := -1
	for _, w := range trace.Of(x.Steps, to, at) {
		step := x.step(w, maxReadDepth)
		step.hide(isSecret)
		p.Steps, end = append(p.Steps, step), w.Step.Index
	}
	for _, s := range x.Steps {
		if s.Elsewhere && s.Index > end {
			p.Elsewhere = append(p.Elsewhere, s.Name)
		}
	}
}

// isOurs says whether a manager is that of the controllers: what a step sets belongs to it, unless another manager changes it.
func isOurs(m FieldManager) bool {
	return m.Name == v1alpha1.ChildManager || m.Name == v1alpha1.StatusManager || m.Name == v1alpha1.InstanceManager
}

func valueAt(o map[string]any, path []any) any {
	value, _ := trace.At(o, path)
	return value
}

// sameJSON says whether values are the same for the API server, whatever their types are here.
func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

type composedField struct{ ComposedField }

// maxReadDepth bounds how far the values that are read are followed, from a field to the one that it is copied from.
const maxReadDepth = 6

func (x composedField) step(w trace.Written, depth int) FieldStep {
	out := FieldStep{
		Step: w.Step.Name, Function: w.Step.Function, What: w.What, Value: w.Value,
		Place: object.Path("spec.pipeline").Index(w.Step.Index).Field("input"),
	}
	if w.Place != "" {
		out.Place = object.Path(string(out.Place) + "." + string(w.Place))
	}
	for _, r := range w.Reads {
		read := x.read(r, w, depth)
		out.Reads = append(out.Reads, read)
		out.Hidden = out.Hidden || read.Hidden
	}
	for _, t := range w.Transforms {
		out.Transforms = append(out.Transforms, FieldTransform{t.Type, t.Value})
	}
	out.hide(false)
	return out
}

// hide removes the values of a step that follow from data of a Secret, or that are such data.
func (s *FieldStep) hide(always bool) {
	if s.Hidden = s.Hidden || always; !s.Hidden {
		return
	}
	s.Value = nil
	for i := range s.Transforms {
		s.Transforms[i].Value = nil
	}
	for i := range s.Reads {
		if always {
			s.Reads[i].Value, s.Reads[i].Hidden = nil, true
		}
	}
}

// read is a field that a write reads.
func (x composedField) read(r trace.Read, of trace.Written, depth int) (out FieldRead) {
	path := r.Field.Segments()
	switch r.Of.Kind {
	case trace.Composite:
		out.FieldValue = fieldValue(x.Composite, path)
		if len(path) > 0 && path[0] != "status" {
			out.Claim = x.claimed(path)
		} else {
			out.From = x.from(r, of, path, depth)
		}
	case trace.Composed:
		at := slices.IndexFunc(x.Children, func(o *unstructured.Unstructured) bool { return inventory.Node(o) == r.Of.Resource })
		if at < 0 {
			// What is not known might be a Secret.
			out.FieldValue = FieldValue{Object: report.Object{Kind: "resource", Name: r.Of.Resource}, Exists: true, Hidden: true}
			break
		}
		out.FieldValue = fieldValue(x.Children[at], path)
	case trace.Environment:
		out.FieldValue = FieldValue{Object: report.Object{Kind: "environment"}, Exists: true, Value: r.Value}
		out.From = x.from(r, of, path, depth)
	default:
		out.FieldValue = FieldValue{Object: report.Object{Kind: string(r.Of.Kind), Name: r.Of.Resource}, Exists: true, Value: r.Value}
	}
	if out.Field = r.Field; !out.Hidden && out.Exists {
		out.Value = r.Value // the managed fields are those of the object, and the value is what the step was given
	}
	if out.From != nil && out.From.Hidden {
		out.Hidden, out.Value = true, nil
	}
	return out
}

// from is the write that set a value that is read: the last one that has set it so.
func (x composedField) from(r trace.Read, of trace.Written, path []any, depth int) *FieldStep {
	if depth == 0 || path == nil {
		return nil
	}
	writes := trace.Of(x.Steps, r.Of, path)
	for _, w := range slices.Backward(writes) {
		isLater := r.Of.Kind == trace.Environment && w.Step.Index > of.Step.Index
		if !isLater && sameJSON(w.Value, r.Value) {
			step := x.step(w, depth-1)
			return &step
		}
	}
	return nil
}

// claimed is the field of the claim that is copied to a field of the composite; nil if there is none.
func (x composedField) claimed(path []any) *FieldValue {
	if x.Claim == nil || path[0] != "spec" {
		return nil
	}
	v := fieldValue(x.Claim, path)
	if !v.Exists {
		return nil
	}
	return &v
}

// Locate sets the files of all places.
func (e *FieldExplanation) Locate(place func(object.Path) string) {
	if e.Pipeline == nil {
		return
	}
	for i := range e.Pipeline.Steps {
		e.Pipeline.Steps[i].locate(place)
	}
}

func (s *FieldStep) locate(place func(object.Path) string) {
	s.File = place(s.Place)
	for i := range s.Reads {
		if from := s.Reads[i].From; from != nil {
			from.locate(place)
		}
	}
}

// pipeline writes how the pipeline of a composition comes to the value.
func (t *fieldText) pipeline(e FieldExplanation) {
	p := e.Pipeline
	by := "The pipeline"
	if p.Composition != "" {
		by = "Composition " + p.Composition
		if p.Revision != "" {
			by += fmt.Sprintf(", revision %d (%s),", p.Number, p.Revision)
		}
	}
	switch {
	case p.Claim != nil:
		t.claim("", p.Claim)
	case e.Node == "" && len(p.Steps) == 0 && !strings.HasPrefix(string(e.Field), "status"):
		t.line("", "It is a field of the composite itself, which no step of a pipeline sets.")
	case p.Controllers:
		t.line("", "The controllers set it, for %s.", e.Instance)
	case len(p.Steps) == 0 && p.IsElsewhere:
		t.line("", "%s sets it, for %s, in %s.", by, e.Instance, stepsElsewhere(p.Elsewhere))
	case len(p.Steps) == 0 && len(p.Elsewhere) > 0:
		t.line("", "%s does not set it, for %s, unless in %s, and another manager has changed it.", by, e.Instance, stepsElsewhere(p.Elsewhere))
	case len(p.Steps) == 0 && len(p.Problems) == 0:
		t.line("", "%s does not set it, for %s.", by, e.Instance)
	case len(p.Steps) > 0:
		t.line("", "%s sets it, for %s:", by, e.Instance)
	}
	for i, s := range p.Steps {
		t.step(fmt.Sprintf("  %d. ", i+1), s)
	}
	switch {
	case p.IsElsewhere && len(p.Steps) > 0:
		t.line("", "The object has another value: it was set later, in %s.", stepsElsewhere(p.Elsewhere))
	case p.Differs:
		t.line("", "The object has another value: another manager has changed it, or it is not applied yet.")
	}
	for _, problem := range p.Problems {
		t.line("", "note: %s", problem)
	}
}

// stepsElsewhere names steps of which nothing more is known.
func stepsElsewhere(names []string) string {
	if len(names) == 1 {
		return "step " + names[0] + ", whose function runs elsewhere"
	}
	return "one of the steps " + strings.Join(names, ", ") + ", whose functions run elsewhere"
}

func (t *fieldText) claim(indent string, v *FieldValue) {
	t.line(indent, "copied from the claim, where %s %s (%s)", v.Field, v.text(), v.Object)
	t.managers(indent+"  ", *v)
}

// step writes one write; its further lines are indented below the first one.
func (t *fieldText) step(bullet string, s FieldStep) {
	indent := strings.Repeat(" ", len(bullet))
	what := s.What
	if what != "" {
		what = ": " + what
	}
	t.line(bullet, "step %s (%s)%s", s.Step, s.Function, what)
	at := string(s.Place)
	if s.File != "" {
		at = s.File + ": " + at
	}
	t.line(indent, "%s", at)
	for _, r := range s.Reads {
		of := r.Object.String()
		if r.Object.Name == "" {
			of = "in the " + r.Object.Kind
		}
		t.line(indent+"  ", "%s %s (%s)", r.Field, r.text(), of)
		if r.Object.APIVersion != "" {
			t.managers(indent+"    ", r.FieldValue)
		}
		if r.Claim != nil {
			t.claim(indent+"    ", r.Claim)
		}
		if r.From != nil {
			t.step(indent+"    ", *r.From)
		}
	}
	value := func(v any) string { return FieldValue{Value: v, Hidden: s.Hidden}.ValueText(maxValue) }
	for _, x := range s.Transforms {
		t.line(indent+"  ", "%s: %s", x.Type, value(x.Value))
	}
	t.line(indent, "sets %s", value(s.Value))
}
