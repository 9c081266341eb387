// Package conversion converts objects between the versions of a kind, by expressions where fields have moved. The
// same schemas, rules and object give the same result. See docs/design/0012-revisions-rollouts-and-versions.md.
//
// Objects are stored in one version, the hub; every other version is a spoke with rules for its conversion to the hub
// and back. Values without a field in the other version are kept in an annotation, so a round trip does not change an
// object.
//
// Pure: it decides from values alone.
package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

type props = apiextensionsv1.JSONSchemaProps

// Version is a version of a kind, and the schema of its objects' spec.
type Version struct {
	Name string
	Spec *props
}

// Rules are an author's conversion rules of a spoke: templates with expressions that read
// the object of the other version as self.
type Rules struct {
	// To is the template of the hub's spec, From the template of the spoke's spec.
	To   map[string]any `json:"to,omitempty"`
	From map[string]any `json:"from,omitempty"`
	// Keep lists the paths of fields that are kept though they may be secret, Drop the paths of fields that are not
	// kept.
	Keep []string `json:"keep,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// Places are the paths of a spoke's rules and of the schemas in a definition, for
// diagnostics.
type Places struct{ Hub, Spoke, Rules object.Path }

// Pair converts between the hub and a spoke. It is immutable and safe for concurrent use.
type Pair struct {
	hubTransform, spokeTransform *transform
	keeper                       keepRules
	identity                     bool
}

// Compile checks the rules of a spoke against both schemas. It returns either a pair or all
// problems.
func Compile(hub, spoke Version, rules Rules, at Places) (*Pair, diag.List) {
	var problems diag.List
	keeper, wrong := parseKeepRules(hub, spoke, rules, at.Rules)
	problems.Add(wrong...)
	to, wrong := compileTransform(spoke, hub, rules.To, at.Rules.Field("to", "spec"))
	problems.Add(wrong...)
	from, wrong := compileTransform(hub, spoke, rules.From, at.Rules.Field("from", "spec"))
	problems.Add(wrong...)
	if len(problems) == 0 {
		to.toStored = true
		problems.Add(to.checkResult()...)
		problems.Add(from.checkResult()...)
		problems.Add(keeper.undecidedFields(to, at.Spoke)...)
		problems.Add(keeper.undecidedFields(from, at.Hub)...)
	}
	if len(problems) > 0 {
		return nil, problems.Sorted()
	}
	same := len(rules.To) == 0 && len(rules.From) == 0 && haveSameFields(hub.Spec, spoke.Spec)
	return &Pair{hubTransform: to, spokeTransform: from, keeper: keeper, identity: same}, nil
}

// IsIdentity reports whether both versions have the same fields: then nothing needs conversion.
func (p *Pair) IsIdentity() bool { return p.identity }

// Converter converts objects of a kind between all its versions. It is immutable and
// safe for concurrent use.
type Converter struct {
	kind  schema.GroupKind
	hub   string
	pairs map[string]*Pair
	// broken checks what is converted to the hub.
	broken RuleCheck
}

// RuleCheck is the first CEL rule of the hub that a spec breaks, and the path of its field in the spec; "" if
// it breaks none.
type RuleCheck func(spec map[string]any) (at object.Path, why string)

// New returns a converter of a kind, given the pairs of the spokes.
func New(kind schema.GroupKind, hub string, pairs map[string]*Pair) *Converter {
	return &Converter{kind: kind, hub: hub, pairs: pairs}
}

// Error says which object cannot be converted, and why.
type Error struct {
	// Object is the kind, the namespace and the name.
	Object   string
	From, To string
	// Field is the field, in the version To, without a valid value; empty if the error is
	// not about a field.
	Field object.Path
	// Expr is the failed expression; empty if no expression failed.
	Expr   string
	Reason string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s cannot be converted from %s to %s: ", e.Object, e.From, e.To)
	if e.Field != "" {
		text += string(e.Field) + ": "
	}
	if e.Expr != "" {
		text += fmt.Sprintf("in %q: ", diag.Truncate(e.Expr, maxShownExpr))
	}
	return text + diag.Truncate(e.Reason, maxReason)
}

// longestExpr bounds how much of an expression an error repeats, and longestReason how much of a text that may quote
// a value.
const (
	maxShownExpr = 120
	maxReason    = 1 << 10
)

// Convert returns an object in a version. It does not change the object; the result shares
// parts with it. Errors are *Error.
func (c *Converter) Convert(o map[string]any, version string) (map[string]any, error) {
	gv, _ := o["apiVersion"].(string)
	group, from, _ := strings.Cut(gv, "/")
	kind, _ := o["kind"].(string)
	fail := func(reason string) error {
		return &Error{Object: describeObject(o), From: from, To: version, Reason: reason}
	}
	switch {
	case group != c.kind.Group || kind != c.kind.Kind:
		return nil, fail(fmt.Sprintf("its kind is not %s of group %s", c.kind.Kind, c.kind.Group))
	case !c.HasVersion(from):
		return nil, fail(fmt.Sprintf("the kind has no version %q; it has %s", from, strings.Join(c.versions(), ", ")))
	case !c.HasVersion(version):
		return nil, fail(fmt.Sprintf("the kind has no version %q; it has %s", version, strings.Join(c.versions(), ", ")))
	case from == version:
		return o, nil
	}
	var err error
	if from != c.hub {
		o, err = c.convertOnce(o, from, c.hub, c.pairs[from].toHub)
	}
	if err == nil && version != c.hub {
		o, err = c.convertOnce(o, c.hub, version, c.pairs[version].fromHub)
	}
	return o, err
}

// WithRules returns a converter that converts nothing to the hub that breaks one of its rules. The API server
// evaluates only the rules of the version that a client writes. A client of a spoke could put any value in a field
// that only the hub has, by the annotation of kept values.
func (c *Converter) WithRules(broken RuleCheck) *Converter {
	out := *c
	out.broken = broken
	return &out
}

// Kind is the kind of the objects that the converter converts.
func (c *Converter) Kind() schema.GroupKind { return c.kind }

// HasVersion reports whether the kind has the version.
func (c *Converter) HasVersion(version string) bool {
	_, spoke := c.pairs[version]
	return spoke || version == c.hub
}

func (c *Converter) versions() []string {
	return append([]string{c.hub}, slices.Sorted(maps.Keys(c.pairs))...)
}

// convertOnce converts between the hub and a spoke, and removes the annotations of versions
// that no longer exist.
func (c *Converter) convertOnce(o map[string]any, from, to string, convert func(*conversion) error) (map[string]any, error) {
	ch := newConversion(o, from, to)
	ch.broken = c.broken
	if err := convert(ch); err != nil {
		err := newError(err)
		err.Object, err.From, err.To = describeObject(o), from, to
		return nil, err
	}
	for name := range ch.annotations {
		if version, ok := strings.CutPrefix(name, KeptAnnotationPrefix); ok && !c.HasVersion(version) {
			delete(ch.annotations, name)
		}
	}
	return ch.result(c.kind.Group + "/" + to), nil
}

func describeObject(o map[string]any) string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

// IsFailure reports whether an answer of the API server has an Error of its conversion webhook. It repeats the text of the
// webhook, with statuses and reasons of other failures. A webhook that does not answer is no failure of a conversion.
func IsFailure(err error) bool {
	return err != nil && strings.Contains(err.Error(), "conversion webhook for ") && strings.Contains(err.Error(), " cannot be converted from ")
}
