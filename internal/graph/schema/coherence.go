package schema

import (
	"cmp"
	"fmt"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
)

// conflictingMarkers reports markers that are valid alone and conflict with each other. It reports only conflicts
// that involve a marker of this field: a type's own are reported at the type.
func (d *draft) conflictingMarkers() []diag.Diagnostic {
	s := d.schema
	var faults []diag.Diagnostic
	faults = append(faults, invertedBounds(d, "minimum", s.Minimum, "maximum", s.Maximum)...)
	faults = append(faults, invertedBounds(d, "minLength", s.MinLength, "maxLength", s.MaxLength)...)
	faults = append(faults, invertedBounds(d, "minItems", s.MinItems, "maxItems", s.MaxItems)...)
	if s.Type == "array" {
		faults = append(faults, d.conflictingListTypes()...)
		faults = append(faults, d.invalidSet()...)
		faults = append(faults, d.invalidListMap()...)
	}
	if _, marked := d.given["listType"]; marked || d.typ.kind != named {
		if hasUntrackedImmutable(s, false) {
			faults = append(faults, diag.Diagnostic{
				Offset:   d.typ.at,
				Problem:  "items of a list cannot be immutable: nothing identifies their old values",
				Expected: "listType=map, or the list itself immutable",
			})
		}
	}
	return faults
}

func (d *draft) markerOffset(names ...string) (int, bool) {
	for _, name := range names {
		if m, ok := d.given[name]; ok {
			return m.at, true
		}
	}
	return 0, false
}

func invertedBounds[N int64 | float64](d *draft, low string, least *N, high string, most *N) []diag.Diagnostic {
	at, here := d.markerOffset(high, low)
	if !here || least == nil || most == nil || cmp.Compare(*least, *most) <= 0 {
		return nil
	}
	return []diag.Diagnostic{{Offset: at, Problem: fmt.Sprintf("%s %s is more than %s %s", low, formatNumber(float64(*least)), high,
		formatNumber(float64(*most)))}}
}

// conflictingListTypes reports listType before uniqueItems, which setListType cannot see.
func (d *draft) conflictingListTypes() []diag.Diagnostic {
	m, unique := d.given["uniqueItems"]
	l, typed := d.given["listType"]
	if unique && typed && l.at < m.at && isTrue(m.value) && l.value != "set" {
		return []diag.Diagnostic{*listTypeConflict(m)}
	}
	return nil
}

// invalidSet reports a set with items that cannot be compared: the items of a set are scalars,
// or lists that are replaced as a whole.
func (d *draft) invalidSet() []diag.Diagnostic {
	at, here := d.markerOffset("uniqueItems", "listType")
	if !here || listType(d.schema) != "set" {
		return nil
	}
	items := d.schema.Items.Schema
	if items.Type == "object" || items.Type == "array" && listType(items) != "atomic" {
		return []diag.Diagnostic{{
			Offset: at, Problem: "the items of a set cannot have parts that change separately", Expected: "scalars, or listType=map with keys",
		}}
	}
	return nil
}

func (d *draft) invalidListMap() []diag.Diagnostic {
	at, here := d.markerOffset("listMapKey", "listType")
	switch {
	case !here:
		return nil
	case listType(d.schema) != "map" && len(d.schema.XListMapKeys) > 0:
		return []diag.Diagnostic{{Offset: at, Problem: `marker "listMapKey" requires listType=map`}}
	case listType(d.schema) != "map":
		return nil
	case len(d.schema.XListMapKeys) == 0:
		return []diag.Diagnostic{{Offset: at, Problem: "a list of listType=map requires a key", Expected: "listMapKey=name, for each field that identifies items"}}
	}
	items := d.schema.Items.Schema
	if items.Type == "" {
		return nil
	}
	if items.Type != "object" || len(items.Properties) == 0 {
		return []diag.Diagnostic{{Offset: at, Problem: "the items of a list of listType=map must be objects with fields", Expected: "a custom type"}}
	}
	var faults []diag.Diagnostic
	for _, key := range d.schema.XListMapKeys {
		if fault := invalidListMapKey(items, key); fault != nil {
			fault.Offset = at
			faults = append(faults, *fault)
		}
	}
	return faults
}

func invalidListMapKey(items *extv1.JSONSchemaProps, key string) *diag.Diagnostic {
	field, ok := items.Properties[key]
	switch {
	case !ok:
		return &diag.Diagnostic{Problem: fmt.Sprintf("the items have no field %q", key), Nearest: diag.Nearest(key, sortedKeys(items.Properties))}
	case field.Type == "object" || field.Type == "array":
		return &diag.Diagnostic{Problem: fmt.Sprintf("the key %q is %s", key, Noun(field.Type)), Expected: "a scalar"}
	case field.Type != "" && field.Default == nil && !slices.Contains(items.Required, key):
		return &diag.Diagnostic{Problem: fmt.Sprintf("the key %q is optional", key), Expected: "required=true or a default"}
	}
	return nil
}

// listType is the x-kubernetes-list-type of a list. The default is atomic: the list is
// replaced as a whole.
func listType(s *extv1.JSONSchemaProps) string {
	if s.XListType == nil {
		return "atomic"
	}
	return *s.XListType
}

// hasUntrackedImmutable reports whether s has an immutable field where the API server cannot find the old value:
// inside a list without keys for its items.
func hasUntrackedImmutable(s *extv1.JSONSchemaProps, inside bool) bool {
	if inside && slices.ContainsFunc(s.XValidations, func(r extv1.ValidationRule) bool { return r.Rule == isImmutable }) {
		return true
	}
	inside = inside || s.Type == "array" && listType(s) != "map"
	return slices.ContainsFunc(children(s), func(below *extv1.JSONSchemaProps) bool { return hasUntrackedImmutable(below, inside) })
}
