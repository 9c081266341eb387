package graph

import (
	"cmp"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// addScaled returns a function that records the field of a version's spec with the marker scale, and refuses a second.
func (c *compilation) addScaled(version string, spec object.Path) func(object.Path) *diag.Diagnostic {
	return func(at object.Path) *diag.Diagnostic {
		field := ".spec" + strings.TrimPrefix(string(at), string(spec))
		switch first := c.scaled[version]; {
		case first != "":
			return &diag.Diagnostic{Problem: `marker "scale" is already on ` + first + ", and a kind has one number of replicas"}
		case strings.Contains(field, "["):
			return &diag.Diagnostic{Problem: `marker "scale" does not apply to this field: the API server reads no path with such a name`,
				Expected: "names of letters, digits, _ and -"}
		}
		c.scaled[version] = field
		return nil
	}
}

// compileScale finds the fields of the scale subresource. Those of the status are the same in all versions.
func compileScale(c *compilation) {
	const at = object.Path("spec.schema.scale")
	given := c.spec.Schema.Scale
	switch {
	case len(c.scaled) == 0 && given != nil:
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "requires a field of the spec with the marker scale", Expected: `replicas: "integer | scale=true"`})
		return
	case len(c.scaled) == 0 || c.graph.Status == nil:
		return
	case given == nil:
		given = &v1alpha1.Scale{}
	}
	scale := extv1.CustomResourceSubresourceScale{StatusReplicasPath: cmp.Or(given.StatusReplicasPath, ".status.replicas")}
	c.checkStatusField(at.Field("statusReplicasPath"), scale.StatusReplicasPath, "integer", "the number of replicas that the scale subresource shows")
	const selector = ".status.selector"
	if given.LabelSelectorPath != "" || statusField(c.graph.Status, selector) != nil {
		path := cmp.Or(given.LabelSelectorPath, selector)
		c.checkStatusField(at.Field("labelSelectorPath"), path, "string", "the selector of the Pods as text, such as app=web")
		scale.LabelSelectorPath = &path
	}
	c.graph.Scale = map[string]extv1.CustomResourceSubresourceScale{}
	for version, field := range c.scaled {
		scale.SpecReplicasPath = field
		c.graph.Scale[version] = scale
	}
}

// checkStatusField checks the type that is inferred for a field of the status.
func (c *compilation) checkStatusField(at object.Path, path, wanted, what string) {
	switch s := statusField(c.graph.Status, path); {
	case s == nil:
		c.problems.Add(diag.Diagnostic{Path: at, Problem: "the status has no field " + path, Expected: "a field with " + what})
	case s.Type != wanted && s.Type != "":
		c.problems.Add(diag.Diagnostic{Path: at, Problem: path + " is " + specschema.Noun(s.Type), Expected: specschema.Noun(wanted) + ": " + what})
	}
}

// statusField is the schema of a field by its path, such as .status.replicas; without a type if the status does not say
// what is there, and nil if nothing is.
func statusField(status *extv1.JSONSchemaProps, path string) *extv1.JSONSchemaProps {
	below, inStatus := strings.CutPrefix(path, ".status.")
	if !inStatus {
		return nil
	}
	for name := range strings.SplitSeq(below, ".") {
		field, ok := status.Properties[name]
		switch {
		case ok:
			status = &field
		case status.XPreserveUnknownFields != nil && *status.XPreserveUnknownFields:
			return &extv1.JSONSchemaProps{}
		default:
			return nil
		}
	}
	return status
}
