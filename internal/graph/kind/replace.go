package kind

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Reason says why a CustomResourceDefinition is not replaced, in one word.
type Reason string

// Reasons for which a CustomResourceDefinition is not replaced.
const (
	// BreakingChange: instances that exist would be refused or lose data, or cannot go in waves.
	BreakingChange Reason = "BreakingChange"
	// BreaksDependants: other definitions that compose the kind would not compile any more.
	BreaksDependants Reason = "BreaksDependants"
	// VersionStillStored: instances may be stored in a version that would no longer be served.
	VersionStillStored Reason = "VersionStillStored"
	// ConversionFails: instances that exist cannot be converted.
	ConversionFails Reason = "ConversionFails"
)

// Replacement is what is known before a CustomResourceDefinition replaces the current one. What takes a request to find
// out is asked for by a step, and is known afterwards.
type Replacement struct {
	Current, Wanted *apiextensionsv1.CustomResourceDefinition
	// AllowBreaking says that the author accepts that the change breaks something, and InWaves that it reaches the
	// instances one after the other.
	AllowBreaking, InWaves bool

	// Dependants says which definitions that compose the kind would not compile any more; empty for none.
	Dependants Answer
	// Inconvertible says which instances cannot be converted; empty for none.
	Inconvertible Answer
}

// Answer is what was found out. The zero value says that it was not asked yet.
type Answer struct {
	Asked bool
	Text  string
}

// ReplaceStep is what is to be done next.
type ReplaceStep struct {
	Do ReplaceDo
	// Reason and Message say why the current CustomResourceDefinition stays.
	Reason  Reason
	Message string
}

// ReplaceDo is what a step does.
type ReplaceDo string

// Steps.
const (
	AskDependants    ReplaceDo = "AskDependants"
	AskInconvertible ReplaceDo = "AskInconvertible"
	Replace          ReplaceDo = "Replace"
	Keep             ReplaceDo = "Keep"
)

// Next decides whether the current CustomResourceDefinition may be replaced.
func (r Replacement) Next() ReplaceStep {
	changes := Breaking(r.Current, r.Wanted)
	from, to := crd.Hub(r.Current), crd.Hub(r.Wanted)
	switch {
	case from != to && r.InWaves:
		return keep(BreakingChange, "the change can't go in waves, since instances are composed in the version that is stored, which would be %s and not %s any more. Take spec.rollout away for it", to, from)
	case len(changes) > 0 && !r.AllowBreaking && !r.Dependants.Asked:
		return ReplaceStep{Do: AskDependants}
	case len(changes) > 0 && !r.AllowBreaking:
		others := ""
		if r.Dependants.Text != "" {
			others = "; and definitions that compose the kind: " + r.Dependants.Text
		}
		return keep(BreakingChange, "the change would break instances that exist: %s%s. Annotate the definition with %s: \"true\" to go ahead",
			Describe(changes), others, v1alpha1.AllowBreakingAnnotation)
	case len(changes) > 0 && r.InWaves:
		return keep(BreakingChange, "the change can't go in waves, since the kind has no room for instances before and after it at once: %s. Take spec.rollout away to let it reach all instances at once, or leave in what would break them", Describe(changes))
	}
	if lost := r.lostVersions(); len(lost) > 0 {
		advice := "List it in spec.schema.versions until they have been rewritten; that begins by itself once the definition is served so"
		if from == to {
			advice = "They are being rewritten, and then it goes"
		}
		return keep(VersionStillStored, "instances may still be stored in %s (status.storedVersions of CustomResourceDefinition %s). %s",
			strings.Join(lost, ", "), r.Wanted.Name, advice)
	}
	switch {
	case r.changesConversion() && !r.Inconvertible.Asked:
		return ReplaceStep{Do: AskInconvertible}
	case r.Inconvertible.Text != "":
		return keep(ConversionFails, "%s. Change the conversion or the instances; what was published before is served until then", r.Inconvertible.Text)
	case !r.AllowBreaking && !r.Dependants.Asked:
		return ReplaceStep{Do: AskDependants}
	case !r.AllowBreaking && r.Dependants.Text != "":
		return keep(BreaksDependants, "the change would break definitions that compose the kind: %s. Change these first, or annotate this definition with %s: \"true\" to go ahead",
			r.Dependants.Text, v1alpha1.AllowBreakingAnnotation)
	}
	return ReplaceStep{Do: Replace}
}

func keep(reason Reason, format string, args ...any) ReplaceStep {
	return ReplaceStep{Do: Keep, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// lostVersions are those in which instances may be stored and which would be gone. The API server would refuse that in
// words of its own.
func (r Replacement) lostVersions() []string {
	var out []string
	for _, stored := range r.Current.Status.StoredVersions {
		if !slices.ContainsFunc(r.Wanted.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			out = append(out, stored)
		}
	}
	return out
}

// changesConversion says whether instances that exist would be converted otherwise than now. One that cannot be
// converted would keep all from being listed.
func (r Replacement) changesConversion() bool {
	same := install.ConvertedBy(r.Wanted) == install.ConvertedBy(r.Current) && crd.Hub(r.Wanted) == crd.Hub(r.Current)
	return !same && !r.AllowBreaking && Converts(r.Wanted) && crd.Established(r.Current)
}

// Describe says what changes would break, each by its path.
func Describe(changes []schema.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s: %s", c.Path, c.What)
	}
	return strings.Join(texts, "; ")
}

// mostInconvertible bounds how many instances a message names.
const mostInconvertible = 3

// Inconvertible says which of the instances cannot be converted to the versions that the CustomResourceDefinition wants
// served; empty if all can.
func Inconvertible(wanted, current *apiextensionsv1.CustomResourceDefinition, instances []unstructured.Unstructured) (string, error) {
	converter, err := Converter(wanted)
	if err != nil {
		return "", err
	}
	if !converter.Knows(crd.Hub(current)) {
		return "", nil
	}
	var problems []string
	failed := 0
	for i := range instances {
		for _, version := range wanted.Spec.Versions {
			if !version.Served {
				continue
			}
			if _, err := converter.Convert(instances[i].Object, version.Name); err != nil {
				if failed++; len(problems) < mostInconvertible {
					problems = append(problems, err.Error())
				}
				break
			}
		}
	}
	if failed == 0 {
		return "", nil
	}
	text := strings.Join(problems, "; ")
	if failed > len(problems) {
		text += fmt.Sprintf("; and %d more", failed-len(problems))
	}
	return fmt.Sprintf("%d of %d instances can't be converted, and would keep all from being read: %s", failed, len(instances), text), nil
}
