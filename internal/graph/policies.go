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

// MaxDriftPaths bounds the paths of one node, each of which is compared with every field
// that was changed.
const MaxDriftPaths = 64

// checkPolicies checks what the author says of objects that others have made or change.
func checkPolicies(c *compilation) {
	switch c.spec.OwnerReferences {
	case "", v1alpha1.OwnerReferencesInstance:
	case v1alpha1.OwnerReferencesNone:
		c.graph.Unreferred = true
	default:
		c.problems.Addf("spec.ownerReferences", "is %q; it can be Instance or None", c.spec.OwnerReferences)
	}
	for _, d := range c.drafts {
		s := d.source
		d.adopt = oneOf(c, d, "adopt", s.Adopt, "somebody else keeps it", v1alpha1.AdoptNever, v1alpha1.AdoptIfUnowned) == v1alpha1.AdoptIfUnowned
		d.refuse = oneOf(c, d, "conflicts", s.Conflicts, "it is never written", v1alpha1.ConflictForce, v1alpha1.ConflictRefuse) == v1alpha1.ConflictRefuse
		policy := oneOf(c, d, "driftPolicy", s.DriftPolicy, "it is never written", v1alpha1.DriftCorrect, v1alpha1.DriftWarn, v1alpha1.DriftIgnore)
		if policy != v1alpha1.DriftCorrect {
			d.drift.Policy = policy
		}
		c.checkDriftPaths(d)
		c.checkRecreation(d)
	}
}

// checkRecreation checks whether the node's object may be deleted and created anew. Where
// data may be lost with it, that has to be said as well.
func (c *compilation) checkRecreation(d *draft) {
	s := d.source
	recreates := oneOf(c, d, "onConflict", s.OnConflict, "it is never written", v1alpha1.OnConflictWait, v1alpha1.OnConflictRecreate) == v1alpha1.OnConflictRecreate
	at := d.at.Field("allowDataLoss")
	kept := d.source.DeletionPolicy.Plain()
	switch {
	case s.AllowDataLoss && d.External:
		c.problems.Addf(at, "has no meaning for externalRef: it is never written")
	case s.AllowDataLoss && !recreates:
		c.problems.Addf(at, "has a meaning with onConflict: Recreate")
	case !recreates:
	case s.AllowDataLoss:
		d.recreate = plan.Recreation{Allowed: true, DataLoss: true}
	case kept != "" && kept != v1alpha1.DeletionDelete:
		c.problems.Addf(d.at.Field("onConflict"), "is Recreate, and deletionPolicy: %s is to keep the object; set allowDataLoss: true if it may be deleted to be created anew", kept)
	case !d.broken && !d.Variable && plan.MayHoldData(d.Kind.GroupKind()):
		c.problems.Addf(d.at.Field("onConflict"), "is Recreate, and a %s may hold data, which is lost when it is deleted; set allowDataLoss: true if it may be", d.Kind.Kind)
	default:
		d.recreate = plan.Recreation{Allowed: true}
	}
}

// oneOf checks one policy of a node, and returns it; empty where it has none that holds.
func oneOf[P ~string](c *compilation, d *draft, field string, policy P, external string, known ...P) P {
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
		c.problems.Addf(at, noObject)
	case d.External:
		c.problems.Addf(at, "has no meaning for externalRef: %s", external)
	default:
		return policy
	}
	return ""
}

// checkDriftPaths reads the fields that a policy of drift is about. One that the template
// doesn't have is a slip: what isn't applied doesn't drift.
func (c *compilation) checkDriftPaths(d *draft) {
	at := d.at.Field("driftPaths")
	paths := d.source.DriftPaths
	switch {
	case len(paths) == 0:
		return
	case d.Variable:
		c.problems.Addf(at, noObject)
		return
	case d.External:
		c.problems.Addf(at, "has no meaning for externalRef: it is never written")
		return
	case d.source.DriftPolicy == "" || d.source.DriftPolicy == v1alpha1.DriftCorrect:
		c.problems.Addf(at, "has a meaning with driftPolicy: Warn or driftPolicy: Ignore; what nothing is said of is corrected")
		return
	case len(paths) > MaxDriftPaths:
		c.problems.Addf(at, "has %d paths, over the limit of %d (MaxDriftPaths)", len(paths), MaxDriftPaths)
		return
	}
	for i, text := range paths {
		pattern, err := object.ParsePattern(text)
		if err != nil {
			c.problems.Addf(at.Index(i), "%v", err)
			continue
		}
		if problem := driftPathProblem(d, pattern, text); problem.Problem != "" {
			problem.Path = at.Index(i)
			c.problems.Add(problem)
			continue
		}
		d.drift.Paths = append(d.drift.Paths, pattern)
	}
}

// driftPathProblem says why a field can't be what a policy of drift is about.
func driftPathProblem(d *draft, pattern object.Pattern, text string) diag.Diagnostic {
	for _, fixed := range []object.Path{"apiVersion", "kind", "metadata.name", "metadata.namespace"} {
		if pattern.Covers(fixed) && text != "metadata" {
			return diag.Diagnostic{Problem: "is " + string(fixed) + ", which nobody can change"}
		}
	}
	if pattern.Root() == "status" {
		return diag.Diagnostic{Problem: "is in the status, which isn't applied and so doesn't drift"}
	}
	if d.broken {
		return diag.Diagnostic{}
	}
	at, instead, missing := pattern.Missing(d.document, computed)
	if !missing {
		return diag.Diagnostic{}
	}
	problem := diag.Diagnostic{Problem: "leads to " + string(at) + ", which the template doesn't set: what isn't applied doesn't drift"}
	if i := strings.LastIndex(string(at), "."); i >= 0 {
		problem.Nearest = diag.Nearest(string(at)[i+1:], instead)
	} else {
		problem.Nearest = diag.Nearest(string(at), slices.Sorted(maps.Keys(d.document)))
	}
	return problem
}

// computed says of a value in a template that an expression gives it: what is in it isn't
// known before.
func computed(value any) bool {
	text, ok := value.(string)
	return ok && strings.Contains(text, "${")
}

// Policies are what the author says of objects that others have made or change, beside
// the defaults, in the words of the definition.
func (n *Node) Policies() []string {
	var out []string
	if n.adopt {
		out = append(out, "adopt: IfUnowned")
	}
	if n.refuse {
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
	return out
}
