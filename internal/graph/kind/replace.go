package kind

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Reason says why a CustomResourceDefinition is not replaced, in one word.
type Reason string

// Reasons why a CustomResourceDefinition is not replaced.
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

// Replacement contains the inputs of the decision whether a CustomResourceDefinition replaces the current one. A
// check that needs requests is an action that the decision asks for; its result is an input of the next decision.
type Replacement struct {
	Current, Wanted *apiextensionsv1.CustomResourceDefinition
	// AllowBreaking says that the author accepts breaking changes. InWaves says that the change is rolled out to the
	// instances in waves.
	AllowBreaking, InWaves bool
	// NotRewritten says which instances cannot be rewritten in the storage version; empty if none is known.
	NotRewritten string

	// Dependants names the definitions that compose the kind and would no longer compile.
	Dependants CheckResult
	// Inconvertible names the instances that cannot be converted.
	Inconvertible CheckResult
}

// CheckResult is the result of a check. Done says that the check has run, and Problem, if not empty, what it found.
type CheckResult struct {
	Done    bool
	Problem string
}

// ReplaceDecision is the next action.
type ReplaceDecision struct {
	Action ReplaceAction
	// Reason and Message say why the current CustomResourceDefinition stays. Passing says that it is replaced without a
	// further change.
	Reason  Reason
	Message string
	Passing bool
}

// ReplaceAction is an action of a ReplaceDecision.
type ReplaceAction string

// Actions.
const (
	CheckDependants ReplaceAction = "AskDependants"
	CheckInstances  ReplaceAction = "AskInconvertible"
	Replace         ReplaceAction = "Replace"
	Keep            ReplaceAction = "Keep"
)

// Next decides whether the current CustomResourceDefinition may be replaced.
func (r Replacement) Next() ReplaceDecision {
	changes := Breaking(r.Current, r.Wanted)
	from, to := crd.StorageVersion(r.Current), crd.StorageVersion(r.Wanted)
	switch {
	case from != to && r.InWaves:
		return keepCurrent(BreakingChange, "the change cannot be rolled out in waves: instances are composed in the storage version, which would change from %s to %s. Remove spec.rollout for this change", from, to)
	case len(changes) > 0 && !r.AllowBreaking && !r.Dependants.Done:
		return ReplaceDecision{Action: CheckDependants}
	case len(changes) > 0 && !r.AllowBreaking:
		others := ""
		if r.Dependants.Problem != "" {
			others = "; and definitions that compose the kind: " + r.Dependants.Problem
		}
		return keepCurrent(BreakingChange, "the change would break existing instances: %s%s. Annotate the definition with %s: \"true\" to allow it",
			Describe(changes), others, v1alpha1.AllowBreakingAnnotation)
	case len(changes) > 0 && r.InWaves:
		return keepCurrent(BreakingChange, "the change cannot be rolled out in waves: the kind cannot hold instances before and after the change at the same time: %s. Remove spec.rollout to change all instances at once, or keep what the change removes", Describe(changes))
	}
	if lost := crd.RemovedStoredVersions(r.Current, r.Wanted); len(lost) > 0 {
		advice := "List it in spec.schema.versions until they are rewritten, which starts once that version is served again"
		switch {
		case from == to && r.NotRewritten != "":
			advice = r.NotRewritten + ". The version is removed once they are"
		case from == to:
			advice = "They are being rewritten; the version is removed afterwards"
		}
		decision := keepCurrent(VersionStillStored, "instances may still be stored in %s (status.storedVersions of CustomResourceDefinition %s). %s",
			strings.Join(lost, ", "), r.Wanted.Name, advice)
		decision.Passing = from == to && r.NotRewritten == ""
		return decision
	}
	switch {
	case r.changesConversion() && !r.Inconvertible.Done:
		return ReplaceDecision{Action: CheckInstances}
	case r.Inconvertible.Problem != "":
		return keepCurrent(ConversionFails, "%s. Change the conversion or the instances; until then the previous CustomResourceDefinition stays",
			r.Inconvertible.Problem)
	case !r.AllowBreaking && !r.Dependants.Done:
		return ReplaceDecision{Action: CheckDependants}
	case !r.AllowBreaking && r.Dependants.Problem != "":
		return keepCurrent(BreaksDependants, "the change would break definitions that compose the kind: %s. Change these first, or annotate this definition with %s: \"true\" to allow it",
			r.Dependants.Problem, v1alpha1.AllowBreakingAnnotation)
	}
	return ReplaceDecision{Action: Replace}
}

func keepCurrent(reason Reason, format string, args ...any) ReplaceDecision {
	return ReplaceDecision{Action: Keep, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// changesConversion reports whether existing instances would be converted differently. A single instance that cannot
// be converted makes every list request fail.
func (r Replacement) changesConversion() bool {
	same := install.ConversionDigest(r.Wanted) == install.ConversionDigest(r.Current) && crd.StorageVersion(r.Wanted) == crd.StorageVersion(r.Current)
	return !same && !r.AllowBreaking && Converts(r.Wanted) && crd.IsEstablished(r.Current)
}

// Describe lists changes with their paths.
func Describe(changes []schema.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s: %s", c.Path, c.Description)
	}
	return strings.Join(texts, "; ")
}

const maxShownInstances = 3

// ConvertedVersions lists the versions from which a new conversion must succeed: the storage version, and those that
// instances may still be stored in. One that is not served is left out: instances cannot be read in it.
func ConvertedVersions(current *apiextensionsv1.CustomResourceDefinition) []string {
	out := []string{crd.StorageVersion(current)}
	for _, name := range crd.OutdatedStoredVersions(current) {
		if crd.Serves(current, name) {
			out = append(out, name)
		}
	}
	return out
}

// DescribeUnreadable says that a new conversion cannot be tried, because the current one fails, and what to do about it.
func DescribeUnreadable(err error) string {
	return fmt.Sprintf("cannot try the new conversion on the instances: reading them fails with the served conversion: %v. "+
		"To replace it without trying, annotate the definition with %s: \"true\"", err, v1alpha1.AllowBreakingAnnotation)
}

// Inconvertible names the instances, in the given version, that cannot be converted to the served versions of the wanted
// CustomResourceDefinition; empty if all can.
func Inconvertible(wanted *apiextensionsv1.CustomResourceDefinition, from string, instances []unstructured.Unstructured) (string, error) {
	converter, err := Converter(wanted)
	if err != nil {
		return "", err
	}
	if !converter.HasVersion(from) {
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
				if failed++; len(problems) < maxShownInstances {
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
	return fmt.Sprintf("%d of %s cannot be converted, which would make every list request fail: %s", failed,
		diag.Counted(len(instances), "instance", "instances"), text), nil
}
