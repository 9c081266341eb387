package definition

import (
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// validation is the result of the validation of a definition by itself. It is cached between reconciles, because it
// compiles the schema's rules.
type validation struct {
	// of is the digest of the validated input.
	of       string
	problems diag.List
	// composite and claim are the CRDs of a valid definition. notes are warnings about parts
	// without effect.
	composite, claim *extv1.CustomResourceDefinition
	notes            string
}

// validate checks the definition by itself and against its last good state. It collects all problems.
func (v *session) validate() error {
	if v.definition == nil {
		return nil
	}
	// Labels are copied to the CRDs; neither they nor annotations change the generation.
	of := object.Digest([]any{v.definition.UID, v.definition.Generation, v.definition.Labels, xrd.Annotations(v.definition)})
	if v.memory.validated.of != of {
		result, err := validationOf(v.definition, xrd.Options{AdditionalPrinterColumns: v.AdditionalPrinterColumns})
		if err != nil {
			return err
		}
		result.of, v.memory.validated = of, result
	}
	v.problems = slices.Clone(v.memory.validated.problems)
	if before := v.lastGood(); before != nil {
		v.problems.Add(xrd.ValidateUpdate(before, v.definition)...)
	}
	v.problems = v.problems.Sorted()
	return nil
}

func validationOf(d *v1.CompositeResourceDefinition, o xrd.Options) (validation, error) {
	composite, problems := xrd.CompositeCRD(d, o)
	if len(problems) > 0 {
		return validation{problems: problems}, nil
	}
	claim, _ := xrd.ClaimCRD(d, o) // its problems are the same
	out := validation{composite: composite, claim: claim}
	if notes := xrd.Warnings(d); len(notes) > 0 {
		out.notes = notes.Err().Error()
	}
	// After a restart the kinds are served from this annotation if the definition is invalid by then.
	return out, install.SetAccepted(composite, d.Spec)
}
