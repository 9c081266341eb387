package crd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// OpenAPI converts the schema of a custom resource to the form that expressions are typed
// from. The x-kubernetes extensions have the shapes that decoding a server's OpenAPI
// document gives, which readers expect. Numbers of defaults and enums are int64 or float64.
//
// The result shares no mutable data with s. Keywords that custom resources cannot have
// ($ref, patternProperties, definitions and the like) are left out.
func OpenAPI(s *extv1.JSONSchemaProps) *spec.Schema {
	if s == nil {
		return nil
	}
	out := &spec.Schema{SchemaProps: spec.SchemaProps{
		ID: s.ID, Description: s.Description, Title: s.Title, Format: s.Format, Nullable: s.Nullable,
		Default: value(s.Default), Enum: values(s.Enum),
		Maximum: copied(s.Maximum), ExclusiveMaximum: s.ExclusiveMaximum,
		Minimum: copied(s.Minimum), ExclusiveMinimum: s.ExclusiveMinimum, MultipleOf: copied(s.MultipleOf),
		MaxLength: copied(s.MaxLength), MinLength: copied(s.MinLength), Pattern: s.Pattern,
		MaxItems: copied(s.MaxItems), MinItems: copied(s.MinItems), UniqueItems: s.UniqueItems,
		MaxProperties: copied(s.MaxProperties), MinProperties: copied(s.MinProperties),
		Required: append([]string(nil), s.Required...),
		AllOf:    all(s.AllOf), OneOf: all(s.OneOf), AnyOf: all(s.AnyOf), Not: OpenAPI(s.Not),
	}}
	out.Example = value(s.Example)
	out.Extensions = extensions(s)
	if s.Type != "" {
		out.Type = spec.StringOrArray{s.Type}
	}
	if s.Items != nil {
		out.Items = &spec.SchemaOrArray{Schema: OpenAPI(s.Items.Schema), Schemas: all(s.Items.JSONSchemas)}
	}
	if s.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, field := range s.Properties {
			out.Properties[name] = *OpenAPI(&field)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: a.Allows || a.Schema != nil, Schema: OpenAPI(a.Schema)}
	}
	return out
}

func extensions(s *extv1.JSONSchemaProps) spec.Extensions {
	out := spec.Extensions{}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	if s.XIntOrString {
		out["x-kubernetes-int-or-string"] = true
	}
	if s.XEmbeddedResource {
		out["x-kubernetes-embedded-resource"] = true
	}
	if s.XListType != nil {
		out["x-kubernetes-list-type"] = *s.XListType
	}
	if s.XMapType != nil {
		out["x-kubernetes-map-type"] = *s.XMapType
	}
	if len(s.XListMapKeys) > 0 {
		// Readers accept []any only, and silently ignore a []string.
		keys := make([]any, len(s.XListMapKeys))
		for i, key := range s.XListMapKeys {
			keys[i] = key
		}
		out["x-kubernetes-list-map-keys"] = keys
	}
	if len(s.XValidations) > 0 {
		out["x-kubernetes-validations"] = validations(s.XValidations)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func validations(rules extv1.ValidationRules) []any {
	out := make([]any, len(rules))
	for i, r := range rules {
		rule := map[string]any{"rule": r.Rule}
		for key, text := range map[string]string{
			"message": r.Message, "messageExpression": r.MessageExpression, "fieldPath": r.FieldPath,
		} {
			if text != "" {
				rule[key] = text
			}
		}
		if r.Reason != nil {
			rule["reason"] = string(*r.Reason)
		}
		if r.OptionalOldSelf != nil {
			rule["optionalOldSelf"] = *r.OptionalOldSelf
		}
		out[i] = rule
	}
	return out
}

func all(in []extv1.JSONSchemaProps) []spec.Schema {
	if in == nil {
		return nil
	}
	out := make([]spec.Schema, len(in))
	for i := range in {
		out[i] = *OpenAPI(&in[i])
	}
	return out
}

// Invalid JSON is treated as absent.
func value(j *extv1.JSON) any {
	if j == nil {
		return nil
	}
	var v any
	if err := json.Unmarshal(j.Raw, &v); err != nil {
		return nil
	}
	return v
}

func values(in []extv1.JSON) []any {
	if in == nil {
		return nil
	}
	out := make([]any, len(in))
	for i := range in {
		out[i] = value(&in[i])
	}
	return out
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
