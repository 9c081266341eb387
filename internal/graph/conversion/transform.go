package conversion

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/kube/crd"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

const selfVariable = "self"

const specPath object.Path = "spec"

type transform struct {
	source, target Version
	assigned       fieldSet
	template       *expr.Template // nil if there are no rules
	at             object.Path
	// plainPaths are the fields with only a path as their expression: if there is no value
	// at the path, the field is left out.
	plainPaths map[object.Path]bool
	// toStored says that the target is stored, so its spec must be valid for its schema.
	toStored bool
}

func compileTransform(source, target Version, doc map[string]any, at object.Path) (*transform, diag.List) {
	w := &transform{source: source, target: target, assigned: assignedFields(doc, target.Spec), at: at, plainPaths: map[object.Path]bool{}}
	if len(doc) == 0 {
		return w, nil
	}
	root := &spec.Schema{SchemaProps: spec.SchemaProps{
		Type:       spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{"spec": *openAPI(source.Spec)},
	}}
	env, err := expr.NewEnv([]expr.Declaration{{Name: selfVariable, Schema: specschema.WithObjectMeta(root)}}, expr.Limits{NoTime: true})
	if err != nil {
		return nil, diag.List{{Path: at, Problem: fmt.Sprintf("version %s cannot be declared in CEL: %v", source.Name, err)}}
	}
	template, problems := env.Template(doc, openAPI(target.Spec), at)
	if template == nil {
		return nil, problems
	}
	w.template = template
	for _, x := range template.Expressions() {
		if _, isPath := x.Program.Path(); isPath && x.Standalone {
			w.plainPaths[x.Path] = true
		}
	}
	return w, problems
}

// openAPI returns the schema by which expressions are typed. A nil schema is an object
// without fields, not an object with any fields.
func openAPI(s *props) *spec.Schema {
	if s == nil {
		s = &props{Type: "object"}
	}
	return crd.OpenAPI(s)
}

type failure struct {
	field  object.Path
	expr   string
	reason string
}

func (f *failure) Error() string { return string(f.field) + ": " + f.reason }

func newError(err error) *Error {
	var f *failure
	if errors.As(err, &f) {
		return &Error{Field: f.field, Expr: f.expr, Reason: f.reason}
	}
	return &Error{Reason: err.Error()}
}

// convertSpec returns the spec of the target, with its defaults. Expressions read the
// source with its defaults.
func (w *transform) convertSpec(vars map[string]any) (map[string]any, error) {
	self, _ := vars[selfVariable].(map[string]any)
	source := plain.Copy(self["spec"])
	applyDefaults(source, w.source.Spec)
	self["spec"] = source
	value, _ := copyCommon(source, orObject(w.source.Spec), orObject(w.target.Spec), w.assigned)
	out, ok := value.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	if w.template != nil {
		rendered, missing := w.template.RenderPartial(nil, vars, nil)
		for _, m := range missing {
			var pending *expr.Pending
			if w.plainPaths[m.At] && errors.As(m.Err, &pending) {
				continue // an absent field stays absent
			}
			return nil, w.failureOf(m)
		}
		fields, _ := rendered.(map[string]any)
		overlay(out, fields, w.assigned)
	}
	applyDefaults(out, w.target.Spec)
	return out, nil
}

func orObject(s *props) *props {
	if s == nil {
		return &props{Type: "object"}
	}
	return s
}

// failureOf says why an expression has no value. It hides the reason if the expression
// reads fields that may be secret.
func (w *transform) failureOf(m expr.Missing) *failure {
	f := &failure{field: w.objectPath(m.At)}
	var (
		failed  *expr.Failure
		limit   *expr.LimitExceeded
		pending *expr.Pending
	)
	switch {
	case errors.As(m.Err, &failed):
		f.expr, f.reason = failed.Expr, failed.Reason.Error()
		if w.mayReadSecret(m.At) {
			f.reason = failed.Kind() + " (values not shown: they may be secret)"
		}
	case errors.As(m.Err, &limit):
		f.expr, f.reason = limit.Expr, fmt.Sprintf("exceeds the limit %s of %d", limit.Limit, limit.Max)
	case errors.As(m.Err, &pending):
		f.expr, f.reason = w.expressionAt(m.At), "reads "+joinPaths(pending.Refs)+", which is not set"
	default:
		f.reason = "has no value"
	}
	return f
}

// expressionAt returns the first expression of a field.
func (w *transform) expressionAt(at object.Path) string {
	for _, x := range w.template.Expressions() {
		if x.Path == at {
			return x.Program.Source()
		}
	}
	return ""
}

func (w *transform) mayReadSecret(at object.Path) bool {
	for _, x := range w.template.Expressions() {
		if x.Path != at {
			continue
		}
		for _, r := range x.Program.Refs() {
			for _, step := range r.Path {
				if mayBeSecret(step.Name) {
					return true
				}
			}
			if len(r.Path) < 2 {
				return true // it reads the whole spec
			}
		}
	}
	return false
}

// objectPath is the path in the object of a field of the template.
func (w *transform) objectPath(at object.Path) object.Path {
	return specPath + object.Path(strings.TrimPrefix(string(at), string(w.at)))
}

func joinPaths(refs []expr.Ref) string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.String()
	}
	return strings.Join(out, ", ")
}

// overlay puts the rendered fields over the copied ones. It ignores nulls.
func overlay(out, given map[string]any, assigned fieldSet) {
	for name, value := range given {
		below, isMap := value.(map[string]any)
		switch value = withoutNulls(value); {
		case value == nil:
		case assigned[name] == nil || !isMap:
			out[name] = value
		default:
			under, ok := out[name].(map[string]any)
			if !ok {
				under = map[string]any{}
			}
			overlay(under, below, assigned[name])
			out[name] = under
		}
	}
}

// withoutNulls removes nulls, as the API server does.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if value = withoutNulls(value); value != nil {
				out[name] = value
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			if item = withoutNulls(item); item != nil {
				out = append(out, item)
			}
		}
		return out
	}
	return v
}

// applyDefaults sets the defaults of unset fields, as the API server does.
func applyDefaults(v any, s *props) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[name]
			if _, given := v[name]; !given && p.Default != nil {
				if value, err := decode(p.Default.Raw); err == nil && value != nil {
					v[name] = value
				}
			}
			applyDefaults(v[name], &p)
		}
		if values := valuesOf(s); values != nil {
			for _, value := range v {
				applyDefaults(value, values)
			}
		}
	case []any:
		for _, item := range v {
			applyDefaults(item, itemsOf(s))
		}
	}
}

func decode(raw []byte) (any, error) {
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	return plain.Copy(out), nil
}

// validate returns an error if the spec is not valid for the target's schema, or breaks a rule. Rules
// assume a valid spec.
func (w *transform) validate(fields map[string]any, broken RuleCheck) error {
	at, why := specschema.ValidateValue(orObject(w.target.Spec), fields)
	if why == "" && broken != nil {
		at, why = broken(fields)
	}
	if why == "" {
		return nil
	}
	if mayBeSecretPath(at) {
		why = "does not match the schema (value not shown: it may be secret)"
	}
	path := specPath
	switch {
	case strings.HasPrefix(string(at), "["):
		path += at
	case at != "":
		path += "." + at
	}
	return &failure{field: path, reason: why}
}
