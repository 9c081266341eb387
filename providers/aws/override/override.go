// Package override corrects what the schemas of AWS say, and knows the types that cannot be served although they have a
// schema. AWS's handlers have errors that this provider cannot fix; overrides.yaml lists them, each with its source.
//
// Pure: it decides from values alone.
package override

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

//go:embed overrides.yaml
var file []byte

// Override corrects the schema of one type. Properties are written with dots, such as Tags.*.Key.
type Override struct {
	// IgnoreDrift are properties with values that do not count in reads: a read returns something else than what was
	// set, or nothing. A change of the desired state is still sent, as for a write-only property.
	IgnoreDrift []string `json:"ignoreDrift,omitempty"`
	// WriteOnly, CreateOnly and ReadOnly are properties that are so, whatever the schema says.
	WriteOnly  []string `json:"writeOnly,omitempty"`
	CreateOnly []string `json:"createOnly,omitempty"`
	ReadOnly   []string `json:"readOnly,omitempty"`
	// Unsupported is why the type cannot be served.
	Unsupported string `json:"unsupported,omitempty"`
}

// Overrides are keyed by the names of types.
type Overrides map[string]Override

var load = sync.OnceValue(func() Overrides {
	all, err := Parse(file)
	if err != nil {
		panic("overrides.yaml: " + err.Error()) // a test has read it
	}
	return all
})

// Parse reads overrides.
func Parse(raw []byte) (Overrides, error) {
	var out Overrides
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, fmt.Errorf("read the overrides of resource types: %w", err)
	}
	return out, nil
}

// All returns the overrides of this version.
func All() Overrides { return maps.Clone(load()) }

// Apply corrects the schema of a type.
func Apply(t *resourcetype.Type) { load().Apply(t) }

// Unsupported returns why a type cannot be served; empty if it can.
func Unsupported(typeName string) string { return load()[typeName].Unsupported }

// Apply corrects the schema of a type.
func (o Overrides) Apply(t *resourcetype.Type) {
	each, has := o[t.Name]
	if !has {
		return
	}
	for _, path := range paths(each.ReadOnly) {
		t.CreateOnlyProperties, t.WriteOnlyProperties = without(t.CreateOnlyProperties, path), without(t.WriteOnlyProperties, path)
		t.ConditionalCreateOnlyProperties = without(t.ConditionalCreateOnlyProperties, path)
		t.ReadOnlyProperties = with(t.ReadOnlyProperties, path)
	}
	for _, path := range paths(each.CreateOnly) {
		t.ReadOnlyProperties = without(t.ReadOnlyProperties, path)
		t.ConditionalCreateOnlyProperties = without(t.ConditionalCreateOnlyProperties, path)
		t.CreateOnlyProperties = with(t.CreateOnlyProperties, path)
	}
	for _, path := range paths(each.WriteOnly) {
		t.ReadOnlyProperties = without(t.ReadOnlyProperties, path)
		t.WriteOnlyProperties = with(t.WriteOnlyProperties, path)
	}
	for _, path := range paths(each.IgnoreDrift) {
		t.IgnoredProperties = with(t.IgnoredProperties, path)
	}
}

func paths(texts []string) []resourcetype.Path {
	var out []resourcetype.Path
	for _, text := range texts {
		out = append(out, strings.Split(text, "."))
	}
	return out
}

func with(all []resourcetype.Path, path resourcetype.Path) []resourcetype.Path {
	return append(without(all, path), path)
}

func without(all []resourcetype.Path, path resourcetype.Path) []resourcetype.Path {
	return slices.DeleteFunc(slices.Clone(all), func(p resourcetype.Path) bool { return slices.Equal(p, path) })
}
