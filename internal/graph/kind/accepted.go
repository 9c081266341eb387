package kind

import (
	"encoding/json"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// RecordAccepted stores the definition in an annotation of the CustomResourceDefinition that serves it. It does not
// store a definition that is too large, nor one with Secret data, because readers of CustomResourceDefinitions might
// not be allowed to read Secrets; such a definition must compile after a restart.
func RecordAccepted(c *apiextensionsv1.CustomResourceDefinition, spec *v1alpha1.DefinitionSpec) error {
	if HasSecretLiterals(spec) {
		return nil
	}
	return install.SetAccepted(c, spec)
}

// isSecretWithLiterals reports whether a template is a Secret with literal data. A value that is a single expression
// without a string literal is computed and not literal data.
func isSecretWithLiterals(r *v1alpha1.Resource) bool {
	var template struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Data       any    `json:"data"`
		StringData any    `json:"stringData"`
	}
	if r == nil || json.Unmarshal(r.Template.Raw, &template) != nil {
		return false
	}
	return template.APIVersion == "v1" && template.Kind == "Secret" && (hasLiteral(template.Data) || hasLiteral(template.StringData))
}

func hasLiteral(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, v := range value {
			if hasLiteral(v) {
				return true
			}
		}
		return false
	case string:
		computed := strings.HasPrefix(value, "${") && strings.HasSuffix(value, "}") && strings.Count(value, "${") == 1 && !strings.ContainsAny(value, "\"'")
		return value != "" && !computed
	}
	return true
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
