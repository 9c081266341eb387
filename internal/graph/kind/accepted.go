package kind

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// RecordAccepted stores the definition in an annotation of the CustomResourceDefinition that serves it. It does not
// store a definition that is too large, nor one with Secret data, because readers of CustomResourceDefinitions might
// not be allowed to read Secrets; such a definition must compile after a restart.
func RecordAccepted(c *apiextensionsv1.CustomResourceDefinition, spec *v1alpha1.DefinitionSpec) error {
	if graph.HasSecretLiterals(spec) {
		return nil
	}
	return install.SetAccepted(c, spec)
}

// Accepted returns the definition that RecordAccepted stored last; false if there is none
// or it cannot be decoded.
func Accepted(c *apiextensionsv1.CustomResourceDefinition) (*v1alpha1.DefinitionSpec, bool) {
	spec := &v1alpha1.DefinitionSpec{}
	if !install.ReadAccepted(c, spec) {
		return nil, false
	}
	return spec, true
}
