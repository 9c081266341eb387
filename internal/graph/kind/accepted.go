package kind

import (
	"encoding/json"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Accept notes on the CustomResourceDefinition which definition it serves. One
// that is too large to note isn't, nor is one with a Secret's values in it, which
// those who may read kinds needn't be allowed to read; it then has to compile
// after a restart.
func Accept(c *apiextensionsv1.CustomResourceDefinition, spec *v1alpha1.DefinitionSpec) error {
	if HoldsSecret(spec) {
		return nil
	}
	return install.Note(c, spec)
}

// holdsSecret says whether a template has a Secret's values written out. A value
// that is one expression without a text in it is computed, and tells nothing.
func holdsSecret(r *v1alpha1.Resource) bool {
	var template struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Data       any    `json:"data"`
		StringData any    `json:"stringData"`
	}
	if r == nil || json.Unmarshal(r.Template.Raw, &template) != nil {
		return false
	}
	return template.APIVersion == "v1" && template.Kind == "Secret" && (literal(template.Data) || literal(template.StringData))
}

func literal(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, v := range value {
			if literal(v) {
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

// Accepted returns the definition that the CustomResourceDefinition was last
// served by, if it is noted and readable.
func Accepted(c *apiextensionsv1.CustomResourceDefinition) (*v1alpha1.DefinitionSpec, bool) {
	spec := &v1alpha1.DefinitionSpec{}
	if !install.Noted(c, spec) {
		return nil, false
	}
	return spec, true
}
