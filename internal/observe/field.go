package observe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// FieldExplanation is where the value of a field comes from. Its JSON is what `espalier why KIND NAME FIELD -o json` prints: fields may
// be added, and no field changes its meaning or disappears.
type FieldExplanation struct {
	FieldValue `json:",inline"`
	// Instance is the instance that the object belongs to; nil if it is not a child.
	Instance *report.Object `json:"instance,omitempty"`
	// Node is the object's node in the definition, and Definition names that.
	Node       string `json:"node,omitempty"`
	Definition string `json:"definition,omitempty"`
	// Place is the field of the definition that sets the value, with file, line and column if the definition was read from a file;
	// empty if the definition does not set it.
	Place object.Path `json:"place,omitempty"`
	File  string      `json:"file,omitempty"`
	// Expressions are those in the definition; without any, the definition sets a literal.
	Expressions []string `json:"expressions,omitempty"`
	// Reads are the fields that the expressions read.
	Reads []FieldValue `json:"reads,omitempty"`
	// Pipeline is what is known of a field in the composition dialect.
	Pipeline *FieldPipeline `json:"pipeline,omitempty"`

	// isInstance is true for an instance of a definition.
	isInstance bool
}

// FieldValue is a field of an object with its value.
type FieldValue struct {
	Object report.Object `json:"object"`
	// Field is the path of the field; in an expression, Name is how the expression names it.
	Field object.Path `json:"field"`
	Name  string      `json:"name,omitempty"`
	// Exists is false if the object has no such field.
	Exists bool `json:"exists"`
	// Value is its value, unless it is hidden, as data of Secrets are.
	Value  any  `json:"value,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
	// Managers are those that own the field, by the object's managed fields.
	Managers []FieldManager `json:"managers,omitempty"`
}

// FieldManager is a manager that owns a field.
type FieldManager struct {
	Name string `json:"name"`
	// Operation is Apply or Update, and Time is when the manager last changed what it owns of the object.
	// Subresource is the one by which it writes, such as scale.
	Operation   string     `json:"operation"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
}

// ExplainField explains a field of an object. The state is the tree of the instance that the object belongs to or, for a
// field of the status of an instance, that of the object itself; its root is nil if the object is neither. Compiled is the
// definition of that instance; nil if there is none, or it is of another dialect.
func ExplainField(o *unstructured.Unstructured, field object.Path, w ClusterState, compiled *graph.Graph) FieldExplanation {
	e := FieldExplanation{FieldValue: fieldValue(o, field.Segments()), isInstance: inventory.SetOf(o) != ""}
	if w.Root == nil {
		return e
	}
	instance, path := report.ObjectOf(w.Root), field.Segments()
	e.Instance = &instance
	isOwnStatus := instance == e.Object
	if !isOwnStatus {
		e.Node = inventory.Node(o)
	}
	if compiled == nil {
		return e
	}
	source, isSet := graph.Source{}, false
	if isOwnStatus {
		source, isSet = compiled.StatusSourceOf(path[1:])
	} else {
		source, isSet = compiled.SourceOf(e.Node, o.Object, path)
	}
	if !isSet {
		return e
	}
	e.Place = source.Path
	seen := map[string]bool{}
	for _, x := range source.Expressions {
		e.Expressions = append(e.Expressions, "${"+strings.Join(strings.Fields(x.Program.Source()), " ")+"}")
		for _, ref := range x.Program.Refs() {
			if name := ref.String(); !seen[name] {
				seen[name] = true
				e.Reads = append(e.Reads, w.read(ref)...)
			}
		}
	}
	return e
}

// read returns the fields that a reference of an expression reads: of the instance, or of the objects of a node.
func (w ClusterState) read(ref expr.Ref) []FieldValue {
	path := ref.Fields()
	var of []*unstructured.Unstructured
	if ref.Root == instanceRoot {
		of = append(of, w.Root)
	} else {
		for _, child := range w.children(w.Root) {
			if inventory.Node(child) == ref.Root {
				of = append(of, child)
			}
		}
	}
	var out []FieldValue
	for _, o := range of {
		v := fieldValue(o, path)
		v.Name = ref.String()
		out = append(out, v)
	}
	return out
}

// instanceRoot is how expressions name the instance.
const instanceRoot = "schema"

func fieldValue(o *unstructured.Unstructured, path []any) FieldValue {
	v := FieldValue{Object: report.ObjectOf(o), Field: object.Path("").Steps(path...)}
	var value any
	value, v.Exists = trace.At(o.Object, path)
	if v.Hidden = v.Exists && isSecretData(o, path); v.Exists && !v.Hidden {
		v.Value = value
	}
	if v.Exists {
		v.Managers = managersAt(o, path)
	}
	return v
}

// isSecretData says whether a path leads to data of a Secret.
func isSecretData(o *unstructured.Unstructured, path []any) bool {
	return o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" && (len(path) == 0 || path[0] == "data" || path[0] == "stringData")
}

// managersAt returns the managers that own a field.
func managersAt(o *unstructured.Unstructured, path []any) (out []FieldManager) {
	for _, entry := range ownership.EntriesAt(o, path) {
		m := FieldManager{Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		if at := entry.Time(); !at.IsZero() {
			m.Time = &at
		}
		out = append(out, m)
	}
	return out
}

// JSON returns the explanation as a JSON document.
func (e FieldExplanation) JSON() []byte { return marshal(e) }

// maxValue bounds, in characters, what is shown of a value.
const maxValue = 200

// Text is the explanation for people. With a width other than 0, sentences are wrapped.
func (e FieldExplanation) Text(now time.Time, width int) string {
	t := fieldText{explanationText{now: now, width: width}}
	line := t.line
	managers := t.managers
	b := &t.b
	line("", "%s of %s %s", e.Field, e.Object, e.text())
	managers("  ", e.FieldValue)
	switch {
	case e.Pipeline != nil:
		t.pipeline(e)
		return b.String()
	case e.Instance == nil && e.isInstance && e.Field.Segments()[0] == "spec":
		line("", "%s is an instance: users set its spec.", e.Object)
		return b.String()
	case e.Instance == nil:
		line("", "%s belongs to no instance.", e.Object)
		return b.String()
	case e.Place == "" && e.Definition != "":
		line("", "%s does not set it.", e.Definition)
		return b.String()
	case e.Place == "" && *e.Instance == e.Object:
		line("", "%s is an instance; its definition cannot be read, so what sets its status is unknown.", e.Object)
		return b.String()
	case e.Place == "":
		line("", "%s belongs to %s, as node %s.", e.Object, e.Instance, e.Node)
		return b.String()
	}
	at := string(e.Place)
	if e.File != "" {
		at = e.File + ": " + at
	}
	if len(e.Managers) > 0 && !slices.ContainsFunc(e.Managers, isOurs) {
		line("", "%s has a value for it, for %s, that another manager has replaced:", e.Definition, e.Instance)
	} else {
		line("", "%s sets it, for %s:", e.Definition, e.Instance)
	}
	line("  ", "%s", at)
	for _, x := range e.Expressions {
		line("  ", "%s", x)
	}
	for _, r := range e.Reads {
		line("    ", "%s %s (%s)", r.Name, r.text(), r.Object)
		managers("      ", r)
	}
	return b.String()
}

// fieldText writes the explanation of a field.
type fieldText struct{ explanationText }

func (t *fieldText) line(indent, format string, args ...any) {
	t.paragraph(indent, fmt.Sprintf(format, args...))
}

func (t *fieldText) managers(indent string, v FieldValue) {
	for _, m := range v.Managers {
		t.line(indent, "owned by %s", m.text(t.now))
	}
	if v.Exists && len(v.Managers) == 0 {
		t.line(indent, "no owner: it is a default, or the API server has set it")
	}
}

// text is what a field is.
func (v FieldValue) text() string {
	switch {
	case v.Hidden:
		return "is hidden"
	case !v.Exists:
		return "is not set"
	}
	return "is " + v.ValueText(maxValue)
}

// ValueText is the value as JSON, truncated to a number of characters. A hidden value is not in it.
func (v FieldValue) ValueText(limit int) string {
	if v.Hidden {
		return "(hidden)"
	}
	raw, err := json.Marshal(v.Value)
	if err != nil {
		return "cannot be shown: " + err.Error()
	}
	return Printable(Truncate(string(raw), limit))
}

func (m FieldManager) text(now time.Time) string {
	text := fmt.Sprintf("%s (%s)", m.Name, m.Operation)
	if m.Time != nil {
		text += ", which last changed its fields " + Age(now.Sub(*m.Time)) + " ago"
	}
	return text
}
