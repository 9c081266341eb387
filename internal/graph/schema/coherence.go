package schema

import (
	"cmp"
	"fmt"
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
)

// incoherent tells what is wrong between markers, each being right by itself.
// It looks only where a marker of this field has a part in it: what is wrong
// with a type is told at the type.
func (d *draft) incoherent() []diag.Diagnostic {
	s := d.schema
	var faults []diag.Diagnostic
	faults = append(faults, crossed(d, "minimum", s.Minimum, "maximum", s.Maximum)...)
	faults = append(faults, crossed(d, "minLength", s.MinLength, "maxLength", s.MaxLength)...)
	faults = append(faults, crossed(d, "minItems", s.MinItems, "maxItems", s.MaxItems)...)
	if s.Type == "array" {
		faults = append(faults, d.contradictory()...)
		faults = append(faults, d.notASet()...)
		faults = append(faults, d.notAMap()...)
	}
	if _, marked := d.given["listType"]; marked || d.typ.kind != named {
		if lost(s, false) {
			faults = append(faults, diag.Diagnostic{
				Offset:   d.typ.at,
				Problem:  "items of a list cannot be immutable, for nothing tells which old item each was",
				Expected: "listType=map, or the list itself immutable",
			})
		}
	}
	return faults
}

// at is where a marker of this field was given.
func (d *draft) at(names ...string) (int, bool) {
	for _, name := range names {
		if m, ok := d.given[name]; ok {
			return m.at, true
		}
	}
	return 0, false
}

func crossed[N int64 | float64](d *draft, low string, least *N, high string, most *N) []diag.Diagnostic {
	at, here := d.at(high, low)
	if !here || least == nil || most == nil || cmp.Compare(*least, *most) <= 0 {
		return nil
	}
	return []diag.Diagnostic{{Offset: at, Problem: fmt.Sprintf("%s %s is more than %s %s", low, written(float64(*least)), high, written(float64(*most)))}}
}

// contradictory is for the order in which setListType sees it too early.
func (d *draft) contradictory() []diag.Diagnostic {
	m, unique := d.given["uniqueItems"]
	l, typed := d.given["listType"]
	if unique && typed && l.at < m.at && isTrue(m.value) && l.value != "set" {
		return []diag.Diagnostic{*contradiction(m)}
	}
	return nil
}

// notASet tells why items cannot be compared with one another: sets hold
// scalars, or lists that are replaced as a whole.
func (d *draft) notASet() []diag.Diagnostic {
	at, here := d.at("uniqueItems", "listType")
	if !here || listType(d.schema) != "set" {
		return nil
	}
	items := d.schema.Items.Schema
	if items.Type == "object" || items.Type == "array" && listType(items) != "atomic" {
		return []diag.Diagnostic{{
			Offset: at, Problem: "the items of a set cannot have parts that change by themselves", Expected: "scalars, or listType=map with keys",
		}}
	}
	return nil
}

func (d *draft) notAMap() []diag.Diagnostic {
	at, here := d.at("listMapKey", "listType")
	switch {
	case !here:
		return nil
	case listType(d.schema) != "map" && len(d.schema.XListMapKeys) > 0:
		return []diag.Diagnostic{{Offset: at, Problem: `marker "listMapKey" needs listType=map`}}
	case listType(d.schema) != "map":
		return nil
	case len(d.schema.XListMapKeys) == 0:
		return []diag.Diagnostic{{Offset: at, Problem: "a list of listType=map needs a key", Expected: "listMapKey=name, for each field that tells items apart"}}
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
		if fault := notAKey(items, key); fault != nil {
			fault.Offset = at
			faults = append(faults, *fault)
		}
	}
	return faults
}

func notAKey(items *extv1.JSONSchemaProps, key string) *diag.Diagnostic {
	field, ok := items.Properties[key]
	switch {
	case !ok:
		return &diag.Diagnostic{Problem: fmt.Sprintf("the items have no field %q", key), Nearest: diag.Nearest(key, sortedKeys(items.Properties))}
	case field.Type == "object" || field.Type == "array":
		return &diag.Diagnostic{Problem: fmt.Sprintf("the key %q is %s", key, inWords(field.Type)), Expected: "a scalar"}
	case field.Type != "" && field.Default == nil && !slices.Contains(items.Required, key):
		return &diag.Diagnostic{Problem: fmt.Sprintf("the key %q may be left out", key), Expected: "it required, or with a default"}
	}
	return nil
}

// listType is how items are told apart; a list that says nothing is replaced as
// a whole.
func listType(s *extv1.JSONSchemaProps) string {
	if s.XListType == nil {
		return "atomic"
	}
	return *s.XListType
}

// lost tells whether s holds something immutable where the API server cannot
// find the old value: inside a list whose items have no keys.
func lost(s *extv1.JSONSchemaProps, inside bool) bool {
	if inside && slices.ContainsFunc(s.XValidations, func(r extv1.ValidationRule) bool { return r.Rule == isImmutable }) {
		return true
	}
	inside = inside || s.Type == "array" && listType(s) != "map"
	return slices.ContainsFunc(children(s), func(below *extv1.JSONSchemaProps) bool { return lost(below, inside) })
}
