package xrd

import (
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

const maxSteps = 99

// ValidateComposition lists the problems that keep a composition from being used.
func ValidateComposition(c *v1.Composition) diag.List {
	var out diag.List
	for _, problem := range validation.IsValidLabelValue(c.Name) {
		out.Addf("metadata.name", "must be a valid label value: %s", problem)
	}
	if c.Spec.Mode != "" && c.Spec.Mode != v1.PipelineMode {
		out.Add(diag.Diagnostic{Path: "spec.mode", Problem: "is " + string(c.Spec.Mode), Expected: string(v1.PipelineMode)})
	}
	ref := c.Spec.CompositeTypeRef
	if ref.Kind == "" || ref.GroupVersionKind().Group == "" {
		out.Addf("spec.compositeTypeRef", "must have the apiVersion and kind of the composites")
	}
	switch n := len(c.Spec.Pipeline); {
	case n == 0:
		out.Addf("spec.pipeline", "must have at least one step")
	case n > maxSteps:
		out.Addf("spec.pipeline", "has %d steps, over the limit of %d", n, maxSteps)
	}
	seen := seenNames{}
	for i := range c.Spec.Pipeline {
		s, at := &c.Spec.Pipeline[i], object.Path("spec.pipeline").Index(i)
		seen.checkUnique(s.Step, at.Field("step"), &out)
		if s.FunctionRef.Name == "" {
			out.Addf(at.Field("functionRef", "name"), "is required")
		}
		checkCredentials(s.Credentials, at.Field("credentials"), &out)
		if s.Requirements != nil {
			checkRequirements(s.Requirements, at.Field("requirements"), &out)
		}
	}
	return out.Sorted()
}

// InputOf returns the input of a step, nil without one; false if it is not an object.
func InputOf(step v1.PipelineStep) (input map[string]any, isObject bool) {
	if step.Input == nil || len(step.Input.Raw) == 0 {
		return nil, true
	}
	return input, utiljson.Unmarshal(step.Input.Raw, &input) == nil
}

// UnknownFunctions lists the steps of a composition that call none of the given functions.
func UnknownFunctions(c *v1.Composition, functions []string) diag.List {
	known := map[string]bool{}
	for _, name := range functions {
		known[name] = true
	}
	var out diag.List
	for i, s := range c.Spec.Pipeline {
		if name := s.FunctionRef.Name; name != "" && !known[name] {
			d := diag.Diagnostic{
				Path:    object.Path("spec.pipeline").Index(i).Field("functionRef", "name"),
				Problem: "there is no function " + name, Nearest: diag.Nearest(name, functions),
			}
			if d.Nearest == "" {
				d.Problem += ": create the Function " + name
			}
			out.Add(d)
		}
	}
	return out.Sorted()
}

func checkCredentials(credentials []v1.FunctionCredentials, at object.Path, out *diag.List) {
	seen := seenNames{}
	for i, c := range credentials {
		at := at.Index(i)
		seen.checkUnique(c.Name, at.Field("name"), out)
		switch c.Source {
		case v1.CredentialsNone:
		case v1.CredentialsSecret:
			if c.SecretRef == nil {
				out.Addf(at.Field("secretRef"), "is required, because the source is Secret")
			}
		default:
			out.Add(diag.Diagnostic{Path: at.Field("source"), Problem: "is " + string(c.Source), Expected: "None or Secret"})
		}
	}
}

func checkRequirements(r *v1.FunctionRequirements, at object.Path, out *diag.List) {
	seen := seenNames{}
	for i, r := range r.RequiredResources {
		at := at.Field("requiredResources").Index(i)
		seen.checkUnique(r.RequirementName, at.Field("requirementName"), out)
		if r.Name != nil && len(r.MatchLabels) > 0 {
			out.Addf(at, "must have either name or matchLabels")
		}
		checkType(r.APIVersion, r.Kind, at, out)
	}
	seen = seenNames{}
	for i, r := range r.RequiredSchemas {
		at := at.Field("requiredSchemas").Index(i)
		seen.checkUnique(r.RequirementName, at.Field("requirementName"), out)
		checkType(r.APIVersion, r.Kind, at, out)
	}
}

func checkType(apiVersion, kind string, at object.Path, out *diag.List) {
	for _, part := range []struct{ field, text, why string }{
		{"apiVersion", apiVersion, object.CheckAPIVersion(apiVersion)}, {"kind", kind, object.CheckKind(kind)},
	} {
		switch {
		case part.text == "":
			out.Addf(at.Field(part.field), "is required")
		case part.why != "":
			out.Addf(at.Field(part.field), "%.80q is invalid: %s", part.text, part.why)
		}
	}
}

type seenNames map[string]bool

func (n seenNames) checkUnique(name string, at object.Path, out *diag.List) {
	switch {
	case name == "":
		out.Addf(at, "is required")
	case n[name]:
		out.Addf(at, "is a duplicate: %q", name)
	}
	n[name] = true
}
