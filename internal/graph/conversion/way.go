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

// selfVariable is the name under which expressions read the object.
const selfVariable = "self"

// specPath is where the fields are in an object.
const specPath object.Path = "spec"

// way is how an object of one version becomes one of another.
type way struct {
	source, target Version
	said           mention
	doc            *expr.Template // nil if nothing is said
	at             object.Path
	// moved are the places of expressions that are nothing but a path: where there is
	// nothing at the path, there is nothing at the place.
	moved map[object.Path]bool
	// strict ways lead to what is stored, which has to be as its schema says.
	strict bool
}

func compileWay(source, target Version, doc map[string]any, at object.Path) (*way, diag.List) {
	w := &way{source: source, target: target, said: mentioned(doc, target.Spec), at: at, moved: map[object.Path]bool{}}
	if len(doc) == 0 {
		return w, nil
	}
	root := &spec.Schema{SchemaProps: spec.SchemaProps{
		Type:       spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{"spec": *openAPI(source.Spec)},
	}}
	env, err := expr.NewEnv([]expr.Declaration{{Name: selfVariable, Schema: specschema.WithObjectMeta(root)}}, expr.Limits{})
	if err != nil {
		return nil, diag.List{{Path: at, Problem: fmt.Sprintf("the version %s can't be typed: %v", source.Name, err)}}
	}
	template, problems := env.Template(doc, openAPI(target.Spec), at)
	if template == nil {
		return nil, problems
	}
	w.doc = template
	for _, x := range template.Expressions() {
		if _, isPath := x.Program.Path(); isPath && x.Standalone {
			w.moved[x.Path] = true
		}
	}
	return w, problems
}

// openAPI is a schema as expressions are typed by. An object without fields is one that
// has none, and not one of any.
func openAPI(s *props) *spec.Schema {
	if s == nil {
		s = &props{Type: "object"}
	}
	return crd.OpenAPI(s)
}

// failure is why a field has no value.
type failure struct {
	field  object.Path
	expr   string
	reason string
}

func (f *failure) Error() string { return string(f.field) + ": " + f.reason }

func explain(err error) *Error {
	var f *failure
	if errors.As(err, &f) {
		return &Error{Field: f.field, Expr: f.expr, Reason: f.reason}
	}
	return &Error{Reason: err.Error()}
}

// spec returns the spec of the target, with its defaults. Those of the source are there
// for expressions to read.
func (w *way) spec(vars map[string]any) (map[string]any, error) {
	self, _ := vars[selfVariable].(map[string]any)
	source := plain.Copy(self["spec"])
	fill(source, w.source.Spec)
	self["spec"] = source
	value, _ := carry(source, orObject(w.source.Spec), orObject(w.target.Spec), w.said)
	out, ok := value.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	if w.doc != nil {
		rendered, missing := w.doc.RenderPartial(vars, nil)
		for _, m := range missing {
			var pending *expr.Pending
			if w.moved[m.At] && errors.As(m.Err, &pending) {
				continue // what isn't there moves to where nothing is
			}
			return nil, w.failed(m)
		}
		fields, _ := rendered.(map[string]any)
		overlay(out, fields, w.said)
	}
	fill(out, w.target.Spec)
	return out, nil
}

func orObject(s *props) *props {
	if s == nil {
		return &props{Type: "object"}
	}
	return s
}

// failed says why an expression has no value. Values may be secret, and are told only
// where nothing that is read may be.
func (w *way) failed(m expr.Missing) *failure {
	f := &failure{field: w.place(m.At)}
	var (
		failed  *expr.Failure
		limit   *expr.LimitExceeded
		pending *expr.Pending
	)
	switch {
	case errors.As(m.Err, &failed):
		f.expr, f.reason = failed.Expr, failed.Reason.Error()
		if w.conceals(m.At) {
			f.reason = "has no value (why isn't told: it may be secret)"
		}
	case errors.As(m.Err, &limit):
		f.expr, f.reason = limit.Expr, fmt.Sprintf("exceeds the limit %s of %d", limit.Limit, limit.Max)
	case errors.As(m.Err, &pending):
		f.expr, f.reason = w.textAt(m.At), "reads "+paths(pending.Refs)+", which isn't there"
	default:
		f.reason = "has no value"
	}
	return f
}

// textAt is the text of the first expression at a place.
func (w *way) textAt(at object.Path) string {
	for _, x := range w.doc.Expressions() {
		if x.Path == at {
			return x.Program.Source()
		}
	}
	return ""
}

// conceals says whether the expressions at a place read what may be secret.
func (w *way) conceals(at object.Path) bool {
	for _, x := range w.doc.Expressions() {
		if x.Path != at {
			continue
		}
		for _, r := range x.Program.Refs() {
			for _, step := range r.Path {
				if maySecret(step.Name) {
					return true
				}
			}
			if len(r.Path) < 2 {
				return true // it reads all there is
			}
		}
	}
	return false
}

// place is where a field of the document is in the object.
func (w *way) place(at object.Path) object.Path {
	return specPath + object.Path(strings.TrimPrefix(string(at), string(w.at)))
}

func paths(refs []expr.Ref) string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.String()
	}
	return strings.Join(out, ", ")
}

// overlay puts what a document gives over what was carried. Null is nothing.
func overlay(out, given map[string]any, said mention) {
	for name, value := range given {
		below, isMap := value.(map[string]any)
		switch value = withoutNulls(value); {
		case value == nil:
		case said[name] == nil || !isMap:
			out[name] = value
		default:
			under, ok := out[name].(map[string]any)
			if !ok {
				under = map[string]any{}
			}
			overlay(under, below, said[name])
			out[name] = under
		}
	}
}

// withoutNulls leaves out what is null, as the API server does with fields.
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

// fill puts defaults where there is nothing, as the API server would.
func fill(v any, s *props) {
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
			fill(v[name], &p)
		}
		if values := valuesOf(s); values != nil {
			for _, value := range v {
				fill(value, values)
			}
		}
	case []any:
		for _, item := range v {
			fill(item, itemsOf(s))
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

// misfit says what of a spec its schema doesn't allow.
func (w *way) misfit(fields map[string]any) error {
	at, why := specschema.Mismatch(orObject(w.target.Spec), fields)
	if why == "" {
		return nil
	}
	if maySecretPath(at) {
		why = "isn't what the schema allows (its value isn't told: it may be secret)"
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
