package graph

import (
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/autoready"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// Function remembers the graphs that it has compiled: most calls are of few inputs. What
// it answers depends on the request alone.
type Function struct {
	inputs memory[*parsed]
	graphs memory[*compiled]
}

// New returns a function that has compiled nothing yet.
func New() *Function { return &Function{} }

// parsed is an input that has been read, or what is wrong with it.
type parsed struct {
	digest   string
	spec     *v1alpha1.DefinitionSpec
	uses     []schema.GroupVersionKind
	problems diag.List
}

// compiled is a graph, or what is wrong with it.
type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

func (f *Function) parse(input map[string]any) *parsed {
	digest := object.Digest(input)
	return f.inputs.get(digest, func() *parsed {
		p := &parsed{digest: digest}
		if p.spec, p.problems = decode(input); len(p.problems) == 0 {
			p.uses = graph.UsesOfEmbedded(p.spec)
		}
		return p
	})
}

// compile makes the graph of an input, for a composite of a kind, with the schemas that
// are given. A kind without one is not checked before it is used.
func (f *Function) compile(p *parsed, composite schema.GroupVersionKind, schemas map[string]call.Schema) *compiled {
	key := p.digest
	for _, gvk := range append([]schema.GroupVersionKind{composite}, p.uses...) {
		key += " " + gvk.String() + "=" + schemas[keyOf(gvk)].Digest
	}
	return f.graphs.get(key, func() *compiled {
		kinds := graph.Kinds{}
		for _, gvk := range p.uses {
			if s := typed(schemas[keyOf(gvk)]); s != nil {
				kinds[gvk] = object.KindInfo{Schema: s}
			}
		}
		c := &compiled{}
		c.graph, c.problems = graph.CompileEmbedded(p.spec, kinds, graph.Embedded{Instance: typed(schemas[keyOf(composite)]), Ready: unready})
		for i := range c.problems {
			if rest, ok := strings.CutPrefix(string(c.problems[i].Path), statusInDefinition); ok {
				c.problems[i].Path = object.Path(statusInInput + rest)
			}
		}
		return c
	})
}

// keyOf is the key by which a kind's schema is required.
func keyOf(gvk schema.GroupVersionKind) string {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return apiVersion + "/" + kind
}

// unready is the rule for resources without readyWhen: what auto-ready goes by.
func unready(o *unstructured.Unstructured) string {
	if autoready.Ready(o) {
		return ""
	}
	return "its status doesn't say that it is"
}

// typed is a schema as compilers read it; nil if there is none, or none that can be read:
// its kind is then untyped.
func typed(s call.Schema) *openapi.Schema {
	if s.Digest == "" {
		return nil
	}
	object, err := s.Read()
	if err != nil {
		return nil
	}
	data, err := json.Marshal(whole(object))
	if err != nil {
		return nil
	}
	out := &openapi.Schema{}
	if json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

// whole is a schema without references to parts that are elsewhere: what they describe
// may be anything.
func whole(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		if refers(s) {
			return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		}
		for key, value := range s {
			s[key] = whole(value)
		}
	case []any:
		for i := range s {
			s[i] = whole(s[i])
		}
	}
	return schema
}

// refers says whether a schema is a reference, as servers write them: alone, or as the
// one of all, which leaves room for a description beside it.
func refers(s map[string]any) bool {
	if _, ok := s["$ref"].(string); ok {
		return true
	}
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		if m, ok := one.(map[string]any); ok && refers(m) {
			return true
		}
	}
	return false
}

// memory remembers the last values that were asked for. Its zero value is empty.
type memory[V any] struct {
	mu     sync.Mutex
	values map[string]V
	order  []string // what was asked for last comes last
}

// most is how many values are remembered.
const most = 128

// get returns the value of a key, and makes it if it isn't remembered.
func (m *memory[V]) get(key string, make func() V) V {
	m.mu.Lock()
	v, ok := m.values[key]
	if ok {
		m.touch(key)
	}
	m.mu.Unlock()
	if ok {
		return v
	}
	v = make() // twice, if two ask at the same time: both are the same
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]V{}
	}
	m.values[key] = v
	m.touch(key)
	if len(m.order) > most {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
	return v
}

func (m *memory[V]) touch(key string) {
	for i, other := range m.order {
		if other == key {
			m.order = append(m.order[:i], m.order[i+1:]...)
			break
		}
	}
	m.order = append(m.order, key)
}
