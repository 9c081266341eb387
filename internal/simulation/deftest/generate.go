package deftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bounds of generated values.
const (
	maxGeneratedItems  = 3
	maxGeneratedLength = 12 // characters of a text
	maxGeneratedDepth  = 12
)

// Generator draws instances of a kind from its schema. The same seed gives the same instances. It does not
// know CEL rules, and patterns only as texts that match them: an instance may be refused.
type Generator struct {
	Kind       schema.GroupVersionKind
	Schema     *structural.Structural
	Namespaced bool
	Random     Random
}

// Random gives random numbers; *rand.Rand of math/rand/v2 does.
type Random interface {
	IntN(n int) int
	Int64N(n int64) int64
	Float64() float64
}

// Instance draws the instance with a number. The first two are extremes: nothing but what is required, and
// everything that is possible.
func (g *Generator) Instance(number int, namespace string) *unstructured.Unstructured {
	d := drawing{g.Random, 0.5}
	switch number {
	case 0:
		d.optional = 0
	case 1:
		d.optional = 1
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(g.Schema.Properties)) {
		s := g.Schema.Properties[name]
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if value, ok := d.value(&s, 0).(map[string]any); ok {
			o.Object[name] = value
		}
	}
	o.SetGroupVersionKind(g.Kind)
	o.SetName(fmt.Sprintf("fuzz-%d", number))
	if g.Namespaced {
		o.SetNamespace(namespace)
	}
	return o
}

// drawing draws values.
type drawing struct {
	Random
	// optional is how likely an optional field is set.
	optional float64
}

func (d drawing) value(s *structural.Structural, depth int) any {
	if s.ValueValidation != nil && len(s.ValueValidation.Enum) > 0 {
		return s.ValueValidation.Enum[d.IntN(len(s.ValueValidation.Enum))].Object
	}
	switch {
	case s.XIntOrString:
		return int64(d.IntN(100))
	case s.Type == "object":
		return d.object(s, depth)
	case s.Type == "array":
		return d.list(s, depth)
	case s.Type == "boolean":
		return d.IntN(2) == 0
	case s.Type == "integer":
		return d.integer(s)
	case s.Type == "number":
		return float64(d.integer(s))
	case s.Type == "string":
		return d.text(s)
	}
	return map[string]any{}
}

func (d drawing) object(s *structural.Structural, depth int) map[string]any {
	out := map[string]any{}
	var required []string
	if s.ValueValidation != nil {
		required = s.ValueValidation.Required
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if slices.Contains(required, name) || depth < maxGeneratedDepth && d.Float64() < d.optional {
			out[name] = d.value(&property, depth+1)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil && depth < maxGeneratedDepth {
		for i := range d.IntN(maxGeneratedItems + 1) {
			out[fmt.Sprintf("key-%d", i)] = d.value(s.AdditionalProperties.Structural, depth+1)
		}
	}
	return out
}

func (d drawing) list(s *structural.Structural, depth int) []any {
	least, most := 0, maxGeneratedItems
	if v := s.ValueValidation; v != nil {
		if v.MinItems != nil {
			least = int(min(*v.MinItems, 100))
		}
		most = max(most, least)
		if v.MaxItems != nil {
			most = min(most, int(*v.MaxItems))
		}
	}
	out := []any{}
	if s.Items == nil || depth >= maxGeneratedDepth {
		return out
	}
	count := least
	if most > least {
		count += d.IntN(most - least + 1)
	}
	seen := map[string]bool{}
	for range count {
		item := d.value(s.Items, depth+1)
		if key := encode(item); !seen[key] { // it may be a set
			seen[key] = true
			out = append(out, item)
		}
	}
	return out
}

func (d drawing) integer(s *structural.Structural) int64 {
	least, most := int64(-3), int64(1000)
	if v := s.ValueValidation; v != nil {
		if v.Minimum != nil {
			least = int64(*v.Minimum)
			most = max(most, least)
		}
		if v.Maximum != nil {
			most = int64(*v.Maximum)
			least = min(least, most)
		}
	}
	switch d.IntN(4) { // the bounds are where expressions fail
	case 0:
		return least
	case 1:
		return most
	}
	return least + d.Int64N(most-least+1)
}

// characters are those of generated texts: valid in names, so that expressions that make names succeed.
const characters = "abcdefghijklmnopqrstuvwxyz0123456789"

func (d drawing) text(s *structural.Structural) string {
	least, most := 0, maxGeneratedLength
	if v := s.ValueValidation; v != nil {
		if v.Pattern != "" {
			most = maxPatternText
		}
		if v.MinLength != nil {
			least = int(min(*v.MinLength, 1000))
		}
		most = max(most, least)
		if v.MaxLength != nil {
			most = min(most, int(*v.MaxLength))
		}
		if example, ok := formats[v.Format]; ok {
			return example
		}
		if text, ok := d.ofPattern(v.Pattern, least, most); ok {
			return text
		}
	}
	length := least
	if most > least {
		length += d.IntN(most - least + 1)
	}
	var b strings.Builder
	for range length {
		b.WriteByte(characters[d.IntN(len(characters))])
	}
	return b.String()
}

// formats has a value of each format that Kubernetes validates and users have.
var formats = map[string]string{
	"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "duration": "1h30m", "email": "a@example.org", "uri": "https://example.org/a",
	"hostname": "a.example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "cidr": "192.0.2.0/24", "uuid": "0d3f5f1e-4b2a-4c3d-8e9f-1a2b3c4d5e6f",
	"byte": "YQ==",
}
