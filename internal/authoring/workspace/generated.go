package workspace

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
	"github.com/espalier-dev/espalier/internal/object"
)

// generatedField matches a field of the schema, or another one, of a version of a generated CustomResourceDefinition.
var (
	generatedField = regexp.MustCompile(`^spec\.versions\[(\d+)\]\.(schema\.openAPIV3Schema|additionalPrinterColumns)(.*)$`)
	property       = regexp.MustCompile(`^\.properties\[([^\]]*)\]`)
	plainProperty  = regexp.MustCompile(`\[([A-Za-z_][A-Za-z0-9_]*)\]`)
)

// The API server refuses rules that are no CEL or cost too much, columns, names. Origin returns the field of the
// definition that a field of the CustomResourceDefinition is generated from.
func (w *Workspace) checkGenerated(d *Document, c *apiextensionsv1.CustomResourceDefinition, origin func(generated string) object.Path) {
	c = c.DeepCopy()
	c.OwnerReferences = nil // the definition has no UID in a file
	for _, p := range admission.CheckDefinition(c) {
		problem := withoutDrawing(diagnosticOf(p))
		problem.Path = origin(p.Field)
		if p.Type == field.ErrorTypeRequired && p.Detail != "" {
			problem.Problem = p.Detail // what is required is no field of the definition
		}
		w.add(d, Error, "", diag.List{problem})
	}
}

func originInGraph(generated string, s *v1alpha1.Schema, c *apiextensionsv1.CustomResourceDefinition) object.Path {
	at := object.Path("spec.schema")
	found := generatedField.FindStringSubmatch(generated)
	switch {
	case found == nil && strings.HasPrefix(generated, "spec.names.plural") && s.Plural != "":
		return at.Field("plural")
	case found == nil && strings.HasPrefix(generated, "spec.names."):
		return at.Field("kind")
	case found == nil:
		return at.Field("group")
	}
	if i, err := strconv.Atoi(found[1]); err == nil && i < len(c.Spec.Versions) {
		if j := slices.IndexFunc(s.Versions, func(v v1alpha1.Version) bool { return v.Name == c.Spec.Versions[i].Name }); j >= 0 {
			at = at.Field("versions").Index(j)
		}
	}
	rest := found[3]
	if found[2] == "additionalPrinterColumns" {
		return at.Field("additionalPrinterColumns").Join(pathOf(rest))
	}
	for {
		name := property.FindStringSubmatch(rest)
		if name == nil {
			return at
		}
		at, rest = at.Field(name[1]), rest[len(name[0]):]
	}
}

func originInComposite(generated, names string, x *v1.CompositeResourceDefinition, c *apiextensionsv1.CustomResourceDefinition) object.Path {
	found := generatedField.FindStringSubmatch(generated)
	if found == nil {
		rest, isName := strings.CutPrefix(generated, "spec.names.")
		switch {
		case isName:
			return object.Path("spec").Field(names) + pathOf("."+rest)
		case strings.HasPrefix(generated, "metadata.labels"), strings.HasPrefix(generated, "metadata.annotations"):
			return object.Path("spec." + generated)
		}
		return "spec.group"
	}
	at := object.Path("spec.versions")
	if i, err := strconv.Atoi(found[1]); err == nil && i < len(c.Spec.Versions) {
		if j := slices.IndexFunc(x.Spec.Versions, func(v v1.DefinitionVersion) bool { return v.Name == c.Spec.Versions[i].Name }); j >= 0 {
			at = at.Index(j)
		}
	}
	return at.Join(pathOf(found[2] + plainProperty.ReplaceAllString(found[3], ".$1")))
}
