package patchandtransform

import (
	"slices"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Input is the function's input. Decode validates it.
type Input struct {
	APIVersion                 string            `json:"apiVersion"`
	Kind                       string            `json:"kind"`
	Metadata                   map[string]any    `json:"metadata"`
	PatchSets                  []patchSet        `json:"patchSets"`
	Environment                *environment      `json:"environment"`
	Resources                  []template        `json:"resources"`
	WriteConnectionSecretToRef *connectionSecret `json:"writeConnectionSecretToRef"`
}

type patchSet struct {
	Name    string  `json:"name"`
	Patches []patch `json:"patches"`
}

type environment struct {
	Patches []patch `json:"patches"`
}

type template struct {
	Name              string             `json:"name"`
	Base              map[string]any     `json:"base"`
	Patches           []patch            `json:"patches"`
	ConnectionDetails []connectionDetail `json:"connectionDetails"`
	ReadinessChecks   []readinessCheck   `json:"readinessChecks"`
}

type connectionSecret struct {
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	Patches   []patch `json:"patches"`
}

type patch struct {
	Type          patchType   `json:"type"`
	FromFieldPath string      `json:"fromFieldPath"`
	ToFieldPath   string      `json:"toFieldPath"`
	PatchSetName  string      `json:"patchSetName"`
	Combine       *combine    `json:"combine"`
	Transforms    []transform `json:"transforms"`
	Policy        policy      `json:"policy"`
}

type patchType string

const (
	fromComposite          patchType = "FromCompositeFieldPath"
	toComposite            patchType = "ToCompositeFieldPath"
	combineFromComposite   patchType = "CombineFromComposite"
	combineToComposite     patchType = "CombineToComposite"
	fromEnvironment        patchType = "FromEnvironmentFieldPath"
	toEnvironment          patchType = "ToEnvironmentFieldPath"
	combineFromEnvironment patchType = "CombineFromEnvironment"
	combineToEnvironment   patchType = "CombineToEnvironment"
	fromPatchSet           patchType = "PatchSet"
)

// typeOrDefault defaults to FromCompositeFieldPath.
func (p *patch) typeOrDefault() patchType {
	if p.Type == "" {
		return fromComposite
	}
	return p.Type
}

// target defaults to the field that the patch reads.
func (p *patch) target() string {
	if p.ToFieldPath == "" {
		return p.FromFieldPath
	}
	return p.ToFieldPath
}

type policy struct {
	FromFieldPath string `json:"fromFieldPath"`
	ToFieldPath   string `json:"toFieldPath"`
}

func (p policy) required() bool { return p.FromFieldPath == "Required" }

type combine struct {
	Variables []variable     `json:"variables"`
	Strategy  string         `json:"strategy"`
	String    *stringCombine `json:"string"`
}

type variable struct {
	FromFieldPath string `json:"fromFieldPath"`
}

type stringCombine struct {
	Format string `json:"fmt"`
}

type connectionDetail struct {
	Name                    string  `json:"name"`
	Type                    string  `json:"type"`
	FromConnectionSecretKey *string `json:"fromConnectionSecretKey"`
	FromFieldPath           *string `json:"fromFieldPath"`
	Value                   *string `json:"value"`
}

type readinessCheck struct {
	Type           string          `json:"type"`
	FieldPath      *string         `json:"fieldPath"`
	MatchString    *string         `json:"matchString"`
	MatchInteger   *int64          `json:"matchInteger"`
	MatchCondition *conditionMatch `json:"matchCondition"`
}

type conditionMatch struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// Decode decodes an input and returns all problems; without problems, the input is valid.
// Notes are about parts that are ignored, or that only fail when they are used. The input
// shares the bases of templates with the object.
func Decode(object map[string]any) (in *Input, problems, notes diag.List) {
	in, problems, notes, failures := decode(object)
	return in, problems, slices.Concat(notes, failures.certain, failures.possible).Sorted()
}

// Check returns the problems of an input before it is used: those of Decode, and what fails when it is used. The first step of a pipeline
// gets no resources of earlier ones. Notes are about parts that are ignored, or that other parts replace.
func Check(object map[string]any, isFirstStep bool) (problems, notes diag.List) {
	in, problems, notes, failures := decode(object)
	problems = slices.Concat(problems, failures.certain, failures.possible)
	usage{in: in, isFirstStep: isFirstStep, problems: &problems, notes: &notes}.check()
	return problems.Sorted(), notes.Sorted()
}

// Invalid returns the problems of Check that keep every composite from being composed: what is used in some of them
// only, such as a patch set that no template includes, may be broken.
func Invalid(object map[string]any, isFirstStep bool) diag.List {
	in, problems, notes, failures := decode(object)
	problems = slices.Concat(problems, failures.certain)
	usage{in: in, isFirstStep: isFirstStep, problems: &problems, notes: &notes}.check()
	return problems.Sorted()
}

// failures are about parts of an input that fail when they are used: certain ones always are, possible ones may be.
type failures struct{ certain, possible diag.List }

func decode(object map[string]any) (in *Input, problems, notes diag.List, out failures) {
	in = &Input{}
	if len(object) == 0 {
		problems.Addf("", "the input is missing; expected %s of %s", Kind, APIVersion)
		return in, problems, nil, out
	}
	strict.Decode(object, in, "", &problems)
	oneOf(validator{problems: &notes}, "apiVersion", in.APIVersion, APIVersion)
	oneOf(validator{problems: &notes}, "kind", in.Kind, Kind)
	validator{in: in, problems: &problems, certain: &out.certain, failures: &out.possible}.input()
	return in, problems.Sorted(), notes, out
}
