package schema

import (
	"math"
	"slices"
	"strconv"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

func (c *changes) compareDefault(old, new *extv1.JSONSchemaProps, at object.Path) {
	was, is := canonical(old.Default), canonical(new.Default)
	switch {
	case was == is:
	case was == "":
		c.harmless(at, "default %s added", is)
	case is == "":
		c.harmless(at, "default %s removed", was)
	default:
		c.harmless(at, "default changed from %s to %s", was, is)
	}
}

// canonical is the same text for equal values, "" for none.
func canonical(j *extv1.JSON) string {
	if j == nil || len(j.Raw) == 0 {
		return ""
	}
	v, err := decode(string(j.Raw))
	if err != nil {
		return string(j.Raw)
	}
	return string(encode(v))
}

func (c *changes) compareValues(old, new *extv1.JSONSchemaProps, at object.Path) {
	c.compareEnum(old.Enum, new.Enum, at)
	c.compareText("pattern", old.Pattern, new.Pattern, at)
	c.compareText("format", old.Format, new.Format, at)
	for _, b := range bounds {
		c.compareBound(b, old, new, at)
	}
	c.compareMultiple(old.MultipleOf, new.MultipleOf, at)
	switch {
	case old.Nullable && !new.Nullable:
		c.breaking(at, "may no longer be null")
	case !old.Nullable && new.Nullable:
		c.harmless(at, "may be null")
	}
}

func (c *changes) compareEnum(old, new []extv1.JSON, at object.Path) {
	was, is := canonicalAll(old), canonicalAll(new)
	switch {
	case len(was) == 0 && len(is) == 0:
	case len(was) == 0:
		c.breaking(at, "enum added: %s", joinJSON(new))
	case len(is) == 0:
		c.harmless(at, "enum removed: %s", joinJSON(old))
	default:
		for _, v := range was {
			if !slices.Contains(is, v) {
				c.breaking(at, "enum lost %s", v)
			}
		}
		for _, v := range is {
			if !slices.Contains(was, v) {
				c.harmless(at, "enum gained %s", v)
			}
		}
	}
}

func canonicalAll(values []extv1.JSON) []string {
	out := make([]string, len(values))
	for i := range values {
		out[i] = canonical(&values[i])
	}
	return out
}

func (c *changes) compareText(name, old, new string, at object.Path) {
	switch {
	case old == new:
	case old == "":
		c.breaking(at, "%s %q added", name, new)
	case new == "":
		c.harmless(at, "%s %q removed", name, old)
	default:
		c.breaking(at, "%s changed from %q to %q", name, old, new)
	}
}

// bound is a numeric constraint: a lower bound tightens when it grows.
type bound struct {
	name  string
	lower bool
	// of returns the bound, nil for none, and whether its own value is excluded.
	of func(*extv1.JSONSchemaProps) (limit *float64, exclusive bool)
}

var bounds = []bound{
	{"minimum", true, func(s *extv1.JSONSchemaProps) (*float64, bool) { return s.Minimum, s.ExclusiveMinimum }},
	{"maximum", false, func(s *extv1.JSONSchemaProps) (*float64, bool) { return s.Maximum, s.ExclusiveMaximum }},
	{"minLength", true, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MinLength })},
	{"maxLength", false, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MaxLength })},
	{"minItems", true, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MinItems })},
	{"maxItems", false, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MaxItems })},
	{"minProperties", true, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MinProperties })},
	{"maxProperties", false, intBound(func(s *extv1.JSONSchemaProps) *int64 { return s.MaxProperties })},
}

func intBound(of func(*extv1.JSONSchemaProps) *int64) func(*extv1.JSONSchemaProps) (*float64, bool) {
	return func(s *extv1.JSONSchemaProps) (*float64, bool) {
		n := of(s)
		if n == nil {
			return nil, false
		}
		f := float64(*n)
		return &f, false
	}
}

func (c *changes) compareBound(b bound, old, new *extv1.JSONSchemaProps, at object.Path) {
	was, wasExclusive := b.of(old)
	is, isExclusive := b.of(new)
	switch {
	case was == nil && is == nil:
	case was == nil:
		c.breaking(at, "%s %s added", b.name, formatBound(*is, isExclusive))
	case is == nil:
		c.harmless(at, "%s %s removed", b.name, formatBound(*was, wasExclusive))
	case *was != *is || wasExclusive != isExclusive:
		tighter := *is > *was == b.lower
		if *was == *is {
			tighter = isExclusive
		}
		c.add(tighter, at, "%s changed from %s to %s", b.name, formatBound(*was, wasExclusive), formatBound(*is, isExclusive))
	}
}

func formatBound(n float64, exclusive bool) string {
	text := formatNumber(n)
	if exclusive {
		text += " (exclusive)"
	}
	return text
}

// formatNumber formats a number without an exponent unless it is huge.
func formatNumber(n float64) string {
	if math.Abs(n) < 1e15 {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

func (c *changes) compareMultiple(old, new *float64, at object.Path) {
	switch {
	case old == nil && new == nil:
	case old == nil:
		c.breaking(at, "multipleOf %s added", formatNumber(*new))
	case new == nil:
		c.harmless(at, "multipleOf %s removed", formatNumber(*old))
	case *old != *new:
		c.add(*new == 0 || math.Mod(*old, *new) != 0, at, "multipleOf changed from %s to %s", formatNumber(*old), formatNumber(*new))
	}
}
