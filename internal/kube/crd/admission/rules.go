package admission

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// SpecRules are the CEL rules of the spec of a version of a kind. They are safe for concurrent use.
type SpecRules struct {
	schema    *structural.Structural
	validator *cel.Validator // nil if there are no rules
}

// NewSpecRules returns the rules of a version.
func NewSpecRules(c *apiextensionsv1.CustomResourceDefinition, version string) (SpecRules, error) {
	internal, err := crd.InternalSchema(c, version)
	if err != nil {
		return SpecRules{}, err
	}
	whole, err := structural.NewStructural(internal)
	if err != nil {
		return SpecRules{}, err
	}
	spec := whole.Properties["spec"]
	return SpecRules{&spec, cel.NewValidator(&spec, false, celconfig.PerCallLimit)}, nil
}

// Broken is the first rule that an otherwise valid spec breaks, and the path of its field in the spec; "" if it breaks
// none. Rules that read the former object are not evaluated.
func (r SpecRules) Broken(spec map[string]any) (at object.Path, why string) {
	if r.validator == nil {
		return "", ""
	}
	problems, _ := r.validator.Validate(context.Background(), nil, r.schema, spec, nil, celconfig.RuntimeCELCostBudget)
	if len(problems) == 0 {
		return "", ""
	}
	if problems[0].Field != "<nil>" { // of the spec itself
		at = object.Path(problems[0].Field)
	}
	return at, problems[0].Detail
}
