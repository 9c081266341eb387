package admission

import (
	"context"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckDefinition lists what the API server refuses in a new CustomResourceDefinition: names, columns, schemas, and
// rules that do not compile or whose estimated cost is too high. The fields are named as in v1.
func CheckDefinition(c *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	c = c.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(c)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(c, &internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	internal.Generation, internal.Status = 1, apiextensions.CustomResourceDefinitionStatus{}
	for _, v := range internal.Spec.Versions {
		if v.Storage && !apiextensions.IsStoredVersion(&internal, v.Name) {
			internal.Status.StoredVersions = append(internal.Status.StoredVersions, v.Name)
		}
	}
	problems := definitions.ValidateCustomResourceDefinition(context.Background(), &internal)
	for _, p := range problems {
		p.Field = fieldOfV1(p.Field)
	}
	return problems
}

// shared are fields that the API server moves out of the versions before it checks them, if all versions have the same.
var shared = map[string]string{
	"spec.validation.": "spec.versions[0].schema.", "spec.additionalPrinterColumns": "spec.versions[0].additionalPrinterColumns",
	"spec.selectableFields": "spec.versions[0].selectableFields", "spec.subresources": "spec.versions[0].subresources",
}

func fieldOfV1(path string) string {
	path = strings.Replace(path, "].JSONPath", "].jsonPath", 1) // the name in Go
	for moved, original := range shared {
		if rest, found := strings.CutPrefix(path, moved); found {
			return original + rest
		}
	}
	return path
}
