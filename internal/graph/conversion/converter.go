// Package conversion turns an object of one version of a kind into the same object of
// another, by expressions where fields have moved. It is pure: the same schemas, rules
// and object give the same answer.
//
// One version is the hub, which objects are stored in; every other is a spoke and says
// how it becomes the hub and back. What the other version has no room for is kept in an
// annotation, so that an object is the same after a way there and back.
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

// Rules are what an author says of a spoke: documents whose expressions read the object
// of the other version as self.
type Rules struct {
	// To is the hub's spec, From the spoke's.
	To   map[string]any `json:"to,omitempty"`
	From map[string]any `json:"from,omitempty"`
	// Keep are fields that are kept though they may be secret, Drop those that aren't
	// kept.
	Keep []string `json:"keep,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// Places are where a spoke's rules and the schemas stand in a definition, for diagnostics.
type Places struct{ Hub, Spoke, Rules object.Path }

// Pair converts between the hub and a spoke. It is immutable and safe for concurrent use.
type Pair struct {
	to, from *way
	keeper   keeper
	same     bool
}

// Compile checks the rules of a spoke against both schemas. It returns a pair, or all
// that is wrong.
func Compile(hub, spoke Version, rules Rules, at Places) (*Pair, diag.List) {
	var problems diag.List
	keeper, wrong := newKeeper(hub, spoke, rules, at.Rules)
	problems.Add(wrong...)
	to, wrong := compileWay(spoke, hub, rules.To, at.Rules.Field("to", "spec"))
	problems.Add(wrong...)
	from, wrong := compileWay(hub, spoke, rules.From, at.Rules.Field("from", "spec"))
	problems.Add(wrong...)
	if len(problems) == 0 {
		to.strict = true
		problems.Add(to.unfit()...)
		problems.Add(from.unfit()...)
		problems.Add(keeper.undecided(to, at.Spoke)...)
		problems.Add(keeper.undecided(from, at.Hub)...)
	}
	if len(problems) > 0 {
		return nil, problems.Sorted()
	}
	same := len(rules.To) == 0 && len(rules.From) == 0 && identical(hub.Spec, spoke.Spec)
	return &Pair{to: to, from: from, keeper: keeper, same: same}, nil
}

// Same says that both versions have the same fields, so that there is nothing to convert.
func (p *Pair) Same() bool { return p.same }

// Converter converts objects of a kind between all its versions. It is immutable and
// safe for concurrent use.
type Converter struct {
	kind  schema.GroupKind
	hub   string
	pairs map[string]*Pair
}

// New returns a converter of a kind, given the pairs of the spokes.
func New(kind schema.GroupKind, hub string, pairs map[string]*Pair) *Converter {
	return &Converter{kind: kind, hub: hub, pairs: pairs}
}

// Error says which object can't be converted, and why.
type Error struct {
	// Object is the kind, the namespace and the name.
	Object   string
	From, To string
	// Field is in the version that it was to be converted to; empty if it is none of a
	// field's.
	Field object.Path
	// Expr is the expression that failed, if it is one.
	Expr   string
	Reason string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s can't be converted from %s to %s: ", e.Object, e.From, e.To)
	if e.Field != "" {
		text += string(e.Field) + ": "
	}
	if e.Expr != "" {
		text += fmt.Sprintf("in %q: ", diag.Cut(e.Expr, longestExpr))
	}
	return text + diag.Cut(e.Reason, longestReason)
}

// longestExpr bounds how much of an expression an error repeats, and longestReason of what
// may quote a value.
const (
	longestExpr   = 120
	longestReason = 1 << 10
)

// Convert returns an object, which isn't changed, in a version. The result shares parts
// with it. Errors are *Error.
func (c *Converter) Convert(o map[string]any, version string) (map[string]any, error) {
	gv, _ := o["apiVersion"].(string)
	group, from, _ := strings.Cut(gv, "/")
	kind, _ := o["kind"].(string)
	fail := func(reason string) error {
		return &Error{Object: nameOf(o), From: from, To: version, Reason: reason}
	}
	switch {
	case group != c.kind.Group || kind != c.kind.Kind:
		return nil, fail(fmt.Sprintf("it isn't of the kind %s of %s", c.kind.Kind, c.kind.Group))
	case !c.Knows(from):
		return nil, fail(fmt.Sprintf("the kind has no version %q; it has %s", from, strings.Join(c.versions(), ", ")))
	case !c.Knows(version):
		return nil, fail(fmt.Sprintf("the kind has no version %q; it has %s", version, strings.Join(c.versions(), ", ")))
	case from == version:
		return o, nil
	}
	var err error
	if from != c.hub {
		o, err = c.step(o, from, c.hub, c.pairs[from].toHub)
	}
	if err == nil && version != c.hub {
		o, err = c.step(o, c.hub, version, c.pairs[version].fromHub)
	}
	return o, err
}

// Kind is the kind whose objects it converts.
func (c *Converter) Kind() schema.GroupKind { return c.kind }

// Knows says whether the kind has a version.
func (c *Converter) Knows(version string) bool {
	_, spoke := c.pairs[version]
	return spoke || version == c.hub
}

func (c *Converter) versions() []string {
	return append([]string{c.hub}, slices.Sorted(maps.Keys(c.pairs))...)
}

// step takes one way, and tidies up what is kept for versions that are no more.
func (c *Converter) step(o map[string]any, from, to string, convert func(*change) error) (map[string]any, error) {
	ch := newChange(o, from, to)
	if err := convert(ch); err != nil {
		err := explain(err)
		err.Object, err.From, err.To = nameOf(o), from, to
		return nil, err
	}
	for name := range ch.annotations {
		if version, ok := strings.CutPrefix(name, KeptPrefix); ok && !c.Knows(version) {
			delete(ch.annotations, name)
		}
	}
	return ch.object(c.kind.Group + "/" + to), nil
}

func nameOf(o map[string]any) string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}
