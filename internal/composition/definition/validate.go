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

// validation is what a definition comes to by itself. It is remembered: rules are compiled
// for it, and passes are for all kinds of reasons.
type validation struct {
	// of tells apart what was judged.
	of       string
	problems diag.List
	// composite and claim are the kinds of a definition without problems, notes what it
	// says in vain.
	composite, claim *extv1.CustomResourceDefinition
	notes            string
}

// validate validates the definition, by itself and against what is served. All problems are
// told at once.
func (r *Dialect) validate(v *session) error {
	if v.definition == nil {
		return nil
	}
	// Labels are passed on to the kinds, and don't count for the generation.
	of := object.Digest([]any{v.definition.UID, v.definition.Generation, v.definition.Labels})
	if v.memory.validated.of != of {
		judged, err := validationOf(v.definition, xrd.Options{MoreColumns: r.MoreColumns})
		if err != nil {
			return err
		}
		judged.of, v.memory.validated = of, judged
	}
	v.problems = slices.Clone(v.memory.validated.problems)
	if before := r.lastGood(v); before != nil {
		v.problems.Add(xrd.Changed(before, v.definition)...)
	}
	v.problems = v.problems.Sorted()
	return nil
}

func validationOf(d *v1.CompositeResourceDefinition, o xrd.Options) (validation, error) {
	composite, problems := xrd.Composite(d, o)
	if len(problems) > 0 {
		return validation{problems: problems}, nil
	}
	claim, _ := xrd.Claim(d, o) // its problems are the same
	out := validation{composite: composite, claim: claim}
	if notes := xrd.Notes(d); len(notes) > 0 {
		out.notes = notes.Err().Error()
	}
	// After a restart it tells what to serve the kinds by if the definition is broken then.
	return out, install.Note(composite, d.Spec)
}
