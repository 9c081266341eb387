package graph

import (
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// MaxDriftPaths bounds the drift paths of one node, and its external fields: each is compared with every changed
// field.
const MaxDriftPaths = 64

func checkPolicies(c *compilation) {
	switch c.spec.OwnerReferences {
	case "", v1alpha1.OwnerReferencesInstance:
	case v1alpha1.OwnerReferencesNone:
		c.graph.NoOwnerReferences = true
	default:
		c.problems.Addf("spec.ownerReferences", "is %q; it can be Instance or None", c.spec.OwnerReferences)
	}
	for _, d := range c.drafts {
		s := d.source
		d.adoptUnowned = checkPolicy(c, d, "adopt", s.Adopt, "external objects are never written", v1alpha1.AdoptNever,
			v1alpha1.AdoptIfUnowned) == v1alpha1.AdoptIfUnowned
		d.refuseConflicts = checkPolicy(c, d, "conflicts", s.Conflicts, "external objects are never written", v1alpha1.ConflictForce,
			v1alpha1.ConflictRefuse) == v1alpha1.ConflictRefuse
		policy := checkPolicy(c, d, "driftPolicy", s.DriftPolicy, "external objects are never written", v1alpha1.DriftCorrect, v1alpha1.DriftWarn,
			v1alpha1.DriftIgnore)
		if policy != v1alpha1.DriftCorrect {
			d.drift.Policy = policy
		}
		c.checkDriftPaths(d)
		c.checkExternalFields(d)
		c.checkRecreation(d)
	}
}

// checkRecreation checks whether the node's object may be deleted and created again. Where
// that may lose data, the author must allow the loss as well.
func (c *compilation) checkRecreation(d *draft) {
	s := d.source
	recreates := checkPolicy(c, d, "onConflict", s.OnConflict, "external objects are never written", v1alpha1.OnConflictWait,
		v1alpha1.OnConflictRecreate) == v1alpha1.OnConflictRecreate
	at := d.at.Field("allowDataLoss")
	kept := d.source.DeletionPolicy.Plain()
	switch {
	case s.AllowDataLoss && d.External:
		c.problems.Addf(at, "does not apply to %s: external objects are never written", c.words.reference)
	case s.AllowDataLoss && !recreates:
		c.problems.Addf(at, "requires onConflict: Recreate")
	case !recreates:
	case s.AllowDataLoss:
		d.recreate = plan.Recreation{Allowed: true, DataLoss: true}
	case kept != "" && kept != v1alpha1.DeletionDelete:
		c.problems.Addf(d.at.Field("onConflict"), "is Recreate, and deletionPolicy: %s keeps the object; set allowDataLoss: true to allow its deletion", kept)
	case !d.broken && !d.Variable && plan.MayHoldData(d.Kind.GroupKind()):
		c.problems.Addf(d.at.Field("onConflict"), "is Recreate, and a %s may hold data, which its deletion loses; set allowDataLoss: true to allow that", d.Kind.Kind)
	default:
		d.recreate = plan.Recreation{Allowed: true}
	}
}

// checkPolicy returns an empty policy if it is unset or invalid.
func checkPolicy[P ~string](c *compilation, d *draft, field string, policy P, external string, known ...P) P {
	at := d.at.Field(field)
	switch {
	case policy == "":
	case !slices.Contains(known, policy):
		texts := make([]string, len(known))
		for i, k := range known {
			texts[i] = string(k)
		}
		last := len(texts) - 1
		c.problems.Add(diag.Diagnostic{
			Path:    at,
			Problem: "is \"" + string(policy) + "\"; it can be " + strings.Join(texts[:last], ", ") + " or " + texts[last],
			Nearest: diag.Nearest(string(policy), texts),
		})
	case d.Variable:
		c.problems.Addf(at, noObjectProblem)
	case d.External:
		c.problems.Addf(at, "does not apply to %s: %s", c.words.reference, external)
	default:
		return policy
	}
	return ""
}

// checkDriftPaths parses the fields that a drift policy applies to. A field that the
// template does not set is a mistake: what is not applied does not drift.
func (c *compilation) checkDriftPaths(d *draft) {
	at := d.at.Field("driftPaths")
	paths := d.source.DriftPaths
	switch {
	case len(paths) == 0:
		return
	case d.Variable:
		c.problems.Addf(at, noObjectProblem)
		return
	case d.External:
		c.problems.Addf(at, "does not apply to %s: external objects are never written", c.words.reference)
		return
	case d.source.DriftPolicy == "" || d.source.DriftPolicy == v1alpha1.DriftCorrect:
		c.problems.Addf(at, "requires driftPolicy: Warn or driftPolicy: Ignore; all other fields are corrected")
		return
	case len(paths) > MaxDriftPaths:
		c.problems.Addf(at, "has %d paths, over the limit of %d (MaxDriftPaths)", len(paths), MaxDriftPaths)
		return
	}
	for i, text := range paths {
		if pattern, ok := c.appliedPath(d, text, at.Index(i)); ok {
			d.drift.Paths = append(d.drift.Paths, pattern)
		}
	}
}

// appliedPath parses a path to fields that the template sets. It returns false if there is a problem.
func (c *compilation) appliedPath(d *draft, text string, at object.Path) (object.Pattern, bool) {
	pattern, err := object.ParsePattern(text)
	if err != nil {
		c.problems.Addf(at, "%v", err)
		return pattern, false
	}
	if problem := driftPathProblem(d, pattern, text); problem.Problem != "" {
		problem.Path = at
		c.problems.Add(problem)
		return pattern, false
	}
	return pattern, true
}

// checkExternalFields adds the external fields to those whose drift is ignored.
func (c *compilation) checkExternalFields(d *draft) {
	at := d.at.Field("externalFields")
	fields := d.source.ExternalFields
	switch {
	case len(fields) == 0:
		return
	case d.Variable:
		c.problems.Addf(at, noObjectProblem)
		return
	case d.External:
		c.problems.Addf(at, "does not apply to %s: external objects are never written", c.words.reference)
		return
	case d.source.DriftPolicy == v1alpha1.DriftWarn:
		c.problems.Addf(at, "does not go with driftPolicy: Warn, which applies the fields again when the desired object changes")
		return
	case len(fields) > MaxDriftPaths:
		c.problems.Addf(at, "has %d paths, over the limit of %d (MaxDriftPaths)", len(fields), MaxDriftPaths)
		return
	}
	ignoresAll := d.drift.Policy == v1alpha1.DriftIgnore && len(d.source.DriftPaths) == 0
	for i, text := range fields {
		pattern, ok := c.appliedPath(d, text, at.Index(i))
		switch {
		case !ok:
		case pattern.IsThroughList():
			c.problems.Addf(at.Index(i), "leads through a list or to every key; an external field has a path of names only")
		default:
			d.drift.External = append(d.drift.External, pattern)
		}
	}
	d.drift.Policy = v1alpha1.DriftIgnore
	if !ignoresAll {
		d.drift.Paths = append(d.drift.Paths, d.drift.External...)
	}
}

func driftPathProblem(d *draft, pattern object.Pattern, text string) diag.Diagnostic {
	for _, fixed := range []object.Path{"apiVersion", "kind", "metadata.name", "metadata.namespace"} {
		if pattern.Covers(fixed) && text != "metadata" {
			return diag.Diagnostic{Problem: "is " + string(fixed) + ", which cannot change"}
		}
	}
	if pattern.Root() == "status" {
		return diag.Diagnostic{Problem: "is in the status; only applied fields drift"}
	}
	if d.broken {
		return diag.Diagnostic{}
	}
	at, instead, missing := pattern.Missing(d.document, hasExpression)
	if !missing {
		return diag.Diagnostic{}
	}
	problem := diag.Diagnostic{Problem: "is " + string(at) + ", which the template does not set; only applied fields drift"}
	if i := strings.LastIndex(string(at), "."); i >= 0 {
		problem.Nearest = diag.Nearest(string(at)[i+1:], instead)
	} else {
		problem.Nearest = diag.Nearest(string(at), slices.Sorted(maps.Keys(d.document)))
	}
	return problem
}

// hasExpression reports whether a value of a template contains an expression, so it is not known before the template
// is rendered.
func hasExpression(value any) bool {
	text, ok := value.(string)
	return ok && strings.Contains(text, "${")
}

// Policies lists the node's policies for objects that other clients created or change, other than the defaults, as
// the definition writes them.
func (n *Node) Policies() []string {
	var out []string
	if n.adoptUnowned {
		out = append(out, "adopt: IfUnowned")
	}
	if n.refuseConflicts {
		out = append(out, "conflicts: Refuse")
	}
	if n.recreate.Allowed {
		out = append(out, "onConflict: Recreate")
	}
	if n.recreate.DataLoss {
		out = append(out, "allowDataLoss: true")
	}
	if n.drift.Policy != "" {
		out = append(out, "driftPolicy: "+string(n.drift.Policy))
	}
	if len(n.drift.External) > 0 {
		out = append(out, "externalFields")
	}
	return out
}
