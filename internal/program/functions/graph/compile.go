package graph

import (
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// Function composes graphs of a dialect, with a cache of compiled graphs: most calls have one of few inputs. The response depends
// only on the request. It is safe for concurrent use.
type Function struct {
	dialect *Dialect
	inputs  cache[*parsed]
	graphs  cache[*compiled]
}

// New returns a Function with an empty cache.
func New(d *Dialect) *Function { return &Function{dialect: d} }

type parsed struct {
	digest   string
	spec     *v1alpha1.DefinitionSpec
	kinds    []schema.GroupVersionKind
	problems diag.List
}

type compiled struct {
	graph    *graph.Graph
	problems diag.List
}

func (f *Function) parse(input map[string]any) *parsed {
	digest := object.Digest(input)
	return f.inputs.get(digest, func() *parsed {
		p := &parsed{digest: digest}
		if p.spec, p.problems = f.dialect.decode(input); len(p.problems) == 0 {
			p.kinds = graph.UsedKindsOfEmbedded(p.spec)
		}
		return p
	})
}

// compile compiles the graph of an input for a composite kind. Expressions about kinds
// without a schema are not type-checked.
func (f *Function) compile(p *parsed, composite schema.GroupVersionKind, schemas map[string]call.Schema) *compiled {
	key := p.digest
	for _, gvk := range append([]schema.GroupVersionKind{composite}, p.kinds...) {
		key += " " + gvk.String() + "=" + schemas[keyOf(gvk)].Digest
	}
	return f.graphs.get(key, func() *compiled {
		kinds := graph.Kinds{}
		for _, gvk := range p.kinds {
			if s := openAPISchema(schemas[keyOf(gvk)]); s != nil {
				kinds[gvk] = object.KindInfo{Schema: s}
			}
		}
		c := &compiled{}
		c.graph, c.problems = graph.CompileEmbedded(p.spec, kinds, graph.Embedded{Instance: openAPISchema(schemas[keyOf(composite)]), Ready: f.dialect.ready})
		f.dialect.paths(c.problems)
		if c.graph != nil {
			f.dialect.paths(c.graph.SecretOutputs)
		}
		return c
	})
}

func keyOf(gvk schema.GroupVersionKind) string {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return apiVersion + "/" + kind
}

// openAPISchema is the decoded schema of a kind; nil if there is none or it cannot be
// decoded. The kind is then not type-checked.
func openAPISchema(s call.Schema) *openapi.Schema {
	if s.Digest == "" {
		return nil
	}
	object, err := s.Read()
	if err != nil {
		return nil
	}
	data, err := json.Marshal(withoutRefs(object))
	if err != nil {
		return nil
	}
	out := &openapi.Schema{}
	if json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

// withoutRefs is a schema in which each $ref is replaced by a schema that allows anything.
func withoutRefs(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		if isRef(s) {
			return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		}
		for key, value := range s {
			s[key] = withoutRefs(value)
		}
	case []any:
		for i := range s {
			s[i] = withoutRefs(s[i])
		}
	}
	return schema
}

// isRef reports whether a schema is a reference, in one of the forms that API servers publish: a $ref, or an allOf
// with a $ref, which allows a description beside it.
func isRef(s map[string]any) bool {
	if _, ok := s["$ref"].(string); ok {
		return true
	}
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		if m, ok := one.(map[string]any); ok && isRef(m) {
			return true
		}
	}
	return false
}

// cache is an LRU cache. The zero value is empty. It is safe for concurrent use.
type cache[V any] struct {
	mu     sync.Mutex
	values map[string]V
	order  []string // least recently used first
}

const maxCached = 128

// get makes the value if it isn't cached.
func (m *cache[V]) get(key string, make func() V) V {
	m.mu.Lock()
	v, ok := m.values[key]
	if ok {
		m.touch(key)
	}
	m.mu.Unlock()
	if ok {
		return v
	}
	v = make() // concurrent callers may make it twice, with equal results
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]V{}
	}
	m.values[key] = v
	m.touch(key)
	if len(m.order) > maxCached {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
	return v
}

func (m *cache[V]) touch(key string) {
	for i, other := range m.order {
		if other == key {
			m.order = append(m.order[:i], m.order[i+1:]...)
			break
		}
	}
	m.order = append(m.order, key)
}
