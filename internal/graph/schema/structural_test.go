package schema_test

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/espalier-dev/espalier/internal/graph/schema"
)

// parsed is the schema of fields that must have no problems.
func parsed(t *testing.T, text string) *extv1.JSONSchemaProps {
	t.Helper()
	var in struct{ Spec, Types map[string]any }
	decode(t, text, &in)
	s, problems := schema.Parse(in.Spec, "spec", schema.Options{Types: in.Types, TypesPath: "types"})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	mustBeServed(t, s)
	return s
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// mustBeStructural says what the API server's own code says of a definition
// whose spec has the schema s.
func mustBeStructural(t failer, s *extv1.JSONSchemaProps) *structural.Structural {
	t.Helper()
	root := &extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": *s,
	}}
	var internal apiextensions.JSONSchemaProps
	if err := extv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(root, &internal, nil); err != nil {
		t.Fatalf("not convertible: %v", err)
	}
	ss, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatalf("not structural: %v", err)
	}
	if errs := structural.ValidateStructural(nil, ss); len(errs) > 0 {
		t.Fatalf("not structural: %v", errs.ToAggregate())
	}
	if _, _, err := validation.NewSchemaValidator(&internal); err != nil {
		t.Fatalf("no validator: %v", err)
	}
	return ss
}

// mustBeServed also holds defaults to the schema and compiles the rules.
func mustBeServed(t failer, s *extv1.JSONSchemaProps) {
	t.Helper()
	ss := mustBeStructural(t, s)
	if errs, err := defaulting.ValidateDefaults(context.Background(), nil, ss, true, true); err != nil || len(errs) > 0 {
		t.Fatalf("defaults: %v %v", err, errs.ToAggregate())
	}
	mustCompile(t, ss)
}

func mustCompile(t failer, s *structural.Structural) {
	t.Helper()
	if len(s.XValidations) > 0 {
		env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
		results, err := cel.Compile(s, model.SchemaDeclType(s, false), celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
		if err != nil {
			t.Fatalf("rules: %v", err)
		}
		for _, r := range results {
			if r.Error != nil {
				t.Fatalf("rule: %v", r.Error)
			}
		}
	}
	for _, field := range s.Properties {
		mustCompile(t, &field)
	}
	if s.Items != nil {
		mustCompile(t, s.Items)
	}
}
