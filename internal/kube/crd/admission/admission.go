// Package admission admits objects of CustomResourceDefinitions that no API server serves, as it would.
package admission

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Admission admits objects of a version of a kind as an API server that serves the kind's CustomResourceDefinition
// does. It is safe for concurrent use.
type Admission struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
}

// New returns the Admission of a version of a kind.
func New(c *apiextensionsv1.CustomResourceDefinition, version string) (*Admission, error) {
	internal, err := crd.InternalSchema(c, version)
	if err != nil {
		return nil, err
	}
	a := &Admission{}
	if a.schema, err = structural.NewStructural(internal); err != nil {
		return nil, err
	}
	if a.validator, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	a.rules = cel.NewValidator(a.schema, true, celconfig.PerCallLimit)
	return a, nil
}

// UnknownFields lists the fields of an object that the schema does not have, which strict field validation refuses.
func (a *Admission) UnknownFields(o *unstructured.Unstructured) []string {
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(o.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		unknown = nil // Admit refuses it
	}
	return append(unknown, pruning.PruneWithOptions(o.DeepCopy().Object, a.schema, true, options)...)
}

// Admit returns an object as it would be stored: without unknown fields and with defaults. Old is the
// stored object; nil for a creation. Problems are what the API server would refuse; webhooks and
// policies are not asked.
func (a *Admission) Admit(o, old *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	out := o.DeepCopy()
	pruning.Prune(out.Object, a.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(out.Object, a.schema)
	if err := coerceMetadata(out.Object, a.schema); err != nil {
		return out, field.ErrorList{field.Invalid(field.NewPath("metadata"), nil, err.Error())}
	}
	defaulting.Default(out.Object, a.schema)
	var problems field.ErrorList
	var rules []cel.Option
	var before any
	if old == nil {
		problems = validation.ValidateCustomResource(nil, out.Object, a.validator)
	} else { // what is invalid already, and does not change, is accepted
		before = old.Object
		correlated := common.NewCorrelatedObject(out.Object, before, &model.Structural{Structural: a.schema})
		problems = validation.ValidateCustomResourceUpdate(nil, out.Object, before, a.validator, validation.WithRatcheting(correlated))
		rules = append(rules, cel.WithRatcheting(correlated))
	}
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, a.schema, out.Object)...)
	if len(problems) == 0 && a.rules != nil { // rules assume a valid object
		broken, _ := a.rules.Validate(context.Background(), nil, a.schema, out.Object, before, celconfig.RuntimeCELCostBudget, rules...)
		problems = append(problems, broken...)
	}
	return out, problems
}

// coerceMetadata gives the metadata of an object, and of the objects embedded in it, the fields of all kinds, without
// empty maps and lists.
func coerceMetadata(o map[string]any, s *structural.Structural) error {
	metadata, found, err := objectmeta.GetObjectMeta(o, false)
	if err != nil {
		return err
	}
	if err := objectmeta.Coerce(nil, o, s, false, false); err != nil {
		return err
	}
	if !found {
		return nil
	}
	return objectmeta.SetObjectMeta(o, metadata)
}
