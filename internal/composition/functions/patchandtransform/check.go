package patchandtransform

import (
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// maxPatches bounds the patches of a template, including those of its patch sets.
const maxPatches = 4096

type validator struct {
	in       *Input
	problems *diag.List
	// failures are about parts that fail when they are used, and certain about the parts used for every composite.
	failures, certain *diag.List
}

func (c validator) used() validator {
	c.failures = c.certain
	return c
}

func (c validator) input() {
	if len(c.in.Resources) == 0 && (c.in.Environment == nil || len(c.in.Environment.Patches) == 0) {
		c.problems.Addf("resources", "must have resources or environment patches")
	}
	sets := map[string]int{}
	for i, set := range c.in.PatchSets {
		at := object.Path("patchSets").Index(i)
		c.required(at.Field("name"), set.Name)
		sets[set.Name] = len(set.Patches)
		c.patches(at.Field("patches"), set.Patches, resourcePatchTypes...)
	}
	if c.in.Environment != nil {
		c.used().patches("environment.patches", c.in.Environment.Patches, environmentPatchTypes...)
	}
	for i := range c.in.Resources {
		c.template(object.Path("resources").Index(i), &c.in.Resources[i], sets)
	}
	if to := c.in.WriteConnectionSecretToRef; to != nil {
		c.patches("writeConnectionSecretToRef.patches", to.Patches, fromComposite, combineFromComposite)
		for i, p := range to.Patches {
			oneOf(c, object.Path("writeConnectionSecretToRef.patches").Index(i).Field("toFieldPath"), p.target(), "name", "namespace")
		}
	}
}

// resourcePatchTypes are the types that patches of templates and of patch sets can have; a template can include patch
// sets besides.
var resourcePatchTypes = []patchType{
	fromComposite, toComposite, combineFromComposite, combineToComposite,
	fromEnvironment, toEnvironment, combineFromEnvironment, combineToEnvironment,
}

// environmentPatchTypes are the types that the environment's patches can have. There are two
// names for each direction of a copy.
var environmentPatchTypes = []patchType{
	fromComposite, toComposite, combineFromComposite, combineToComposite, fromEnvironment, toEnvironment,
}

func (c validator) template(at object.Path, t *template, sets map[string]int) {
	c.required(at.Field("name"), t.Name)
	if t.Base != nil {
		// A patch may supply the apiVersion.
		c.baseField(at.Field("base", "kind"), t.Base["kind"])
	}
	if _, isObject := t.Base["metadata"].(map[string]any); !isObject && t.Base["metadata"] != nil {
		c.problems.Addf(at.Field("base", "metadata"), "is not an object")
	}
	c.used().patches(at.Field("patches"), t.Patches, append(slices.Clone(resourcePatchTypes), fromPatchSet)...)
	count := len(t.Patches)
	for i, p := range t.Patches {
		n, known := sets[p.PatchSetName]
		if p.typeOrDefault() == fromPatchSet && p.PatchSetName != "" && !known {
			c.problems.Addf(at.Field("patches").Index(i).Field("patchSetName"), "there is no patch set %q", p.PatchSetName)
		}
		count += n
	}
	if count > maxPatches {
		c.problems.Addf(at.Field("patches"), "has %d patches with those of patch sets, over the limit of %d", count, maxPatches)
	}
	for i := range t.ConnectionDetails {
		c.detail(at.Field("connectionDetails").Index(i), &t.ConnectionDetails[i])
	}
	for i := range t.ReadinessChecks {
		c.readiness(at.Field("readinessChecks").Index(i), &t.ReadinessChecks[i])
	}
}

func (c validator) patches(at object.Path, patches []patch, types ...patchType) {
	for i := range patches {
		p, at := &patches[i], at.Index(i)
		if !slices.Contains(types, p.typeOrDefault()) {
			oneOf(c, at.Field("type"), p.typeOrDefault(), types...)
			continue
		}
		c.patch(at, p)
	}
}

func (c validator) patch(at object.Path, p *patch) {
	switch p.typeOrDefault() {
	case fromPatchSet:
		c.required(at.Field("patchSetName"), p.PatchSetName)
		return
	case combineFromComposite, combineToComposite, combineFromEnvironment, combineToEnvironment:
		c.combine(at.Field("combine"), p.Combine)
		c.required(at.Field("toFieldPath"), p.ToFieldPath)
	default:
		c.required(at.Field("fromFieldPath"), p.FromFieldPath)
	}
	c.path(at.Field("fromFieldPath"), p.FromFieldPath)
	c.targetPath(at.Field("toFieldPath"), p.ToFieldPath)
	if from := p.Policy.FromFieldPath; from != "" {
		oneOf(c, at.Field("policy", "fromFieldPath"), from, "Optional", "Required")
	}
	if to := p.Policy.ToFieldPath; to != "" {
		oneOf(c, at.Field("policy", "toFieldPath"), to, mergePolicyNames...)
	}
	for i := range p.Transforms {
		c.transform(at.Field("transforms").Index(i), &p.Transforms[i])
	}
}

func (c validator) combine(at object.Path, combine *combine) {
	if combine == nil {
		c.problems.Addf(at, "is not set")
		return
	}
	oneOf(c, at.Field("strategy"), combine.Strategy, "string")
	switch {
	case combine.String == nil:
		c.problems.Addf(at.Field("string"), "is not set")
	default:
		c.format(at.Field("string", "fmt"), combine.String.Format)
	}
	if len(combine.Variables) == 0 {
		c.problems.Addf(at.Field("variables"), "must not be empty")
	}
	for i, v := range combine.Variables {
		at := at.Field("variables").Index(i).Field("fromFieldPath")
		c.required(at, v.FromFieldPath)
		c.path(at, v.FromFieldPath)
	}
}

func (c validator) format(at object.Path, text string) {
	parsed := parseFormat(text)
	switch {
	case len(text) > maxText:
		c.problems.Addf(at, "has %d bytes, over the limit of %d", len(text), maxText)
	case parsed.star:
		c.problems.Addf(at, "must not take a width from an argument (*)")
	case parsed.padding > maxPadding:
		c.problems.Addf(at, "pads to more than %d characters", maxPadding)
	}
}

// path adds a failure if a path cannot be parsed. Only the patch fails, when it runs.
func (c validator) path(at object.Path, path string) {
	if _, err := fieldpath.Parse(path); err != nil {
		c.failures.Addf(at, "%v", err)
	}
}

// targetPath checks a path that is written to.
func (c validator) targetPath(at object.Path, path string) {
	c.path(at, path)
	segments, _ := fieldpath.Parse(path)
	for _, s := range segments {
		if s.IsIndex && s.Index > fieldpath.MaxIndex {
			c.failures.Addf(at, "index %d is over the limit of %d", s.Index, fieldpath.MaxIndex)
		}
	}
}

func (c validator) required(at object.Path, text string) {
	if text == "" {
		c.problems.Addf(at, "is not set")
	}
}

// baseField adds a problem if the apiVersion or kind of a base is not set, or is no string.
func (c validator) baseField(at object.Path, value any) {
	if _, isString := value.(string); value != nil && !isString {
		c.problems.Addf(at, "must be a string")
		return
	}
	c.required(at, stringOf(value))
}

func oneOf[T ~string](c validator, at object.Path, text T, known ...T) {
	if slices.Contains(known, text) {
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	problem := diag.Diagnostic{Path: at, Problem: "is not set", Expected: strings.Join(names, ", ")}
	if text != "" {
		problem.Problem = "cannot be " + strconv.Quote(diag.Truncate(string(text), 100))
		problem.Nearest = diag.Nearest(string(text), names)
	}
	c.problems.Add(problem)
}
