package definition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/revision"
)

// candidate is what may compose instances: a revision, or, with number 0, the definition
// itself, where no revision of it is kept.
type candidate struct {
	number int64
	*compilation
}

// hitch is why what the definition asks for can't serve; what served before goes on.
type hitch struct{ reason, message string }

// choose finds what the definition asks its instances to be composed by.
func (r *Reconciler) choose(ctx context.Context, v *visit) {
	v.target = revision.TargetOf(v.raw.GetAnnotations(), v.spec, v.revisions)
	waves, problems := revision.WavesOf(v.spec)
	v.waves = waves
	if v.unread {
		return // what serves goes on
	}
	t := &v.target
	switch {
	case len(t.Problems) > 0:
		v.hitch = hitch{revisionMissing, told(t.Problems.Sorted().Err())}
	case v.unkept.reason == revisionsUnreadable && (v.entry.chooser != nil || v.status.ServingRevision != 0 && (v.waves.Any() || revision.StateOf(v.status).Rolling() != 0)):
		return // what serves goes on, or waits until it is known
	case t.Why == revision.Latest && v.unkept.reason != "":
		t.Number, t.Revision = 0, nil
		v.lead = candidate{0, v.entry.own}
	case t.Revision == nil && t.Why != revision.Latest:
		v.hitch = hitch{revisionMissing, fmt.Sprintf("there is no revision %d, which %s asks for; there are %s", t.Number, t.Asked, revision.List(v.revisions))}
	case t.Revision == nil:
		return // there is none yet: the definition says what is wrong with it
	case len(problems) > 0 && v.status.ServingRevision != 0 && v.status.ServingRevision != t.Number:
		v.hitch = hitch{rolloutInvalid, told(problems.Err())}
	default:
		v.lead = candidate{t.Number, r.revision(v, t.Revision)}
		if len(problems) > 0 { // there is nothing to roll out now
			v.hitch = hitch{rolloutInvalid, told(problems.Err())}
		}
	}
	if v.lead.compilation == nil {
		return
	}
	if err := r.compileCandidate(ctx, v, v.lead); err != nil {
		v.unsure = err
		v.lead = candidate{}
		return
	}
	if v.lead.last.graph == nil {
		if v.lead.number != 0 && v.lead.number != v.current {
			v.hitch = hitch{revisionInvalid, fmt.Sprintf("revision %d can't serve: %s", v.lead.number, told(v.lead.last.problems.Sorted().Err()))}
		}
		v.lead = candidate{}
	}
}

// revision is what is known of a revision's graph.
func (r *Reconciler) revision(v *visit, one *rev.GraphRevision) *compilation {
	c, known := v.entry.revisions[one.Spec.Revision]
	if !known {
		c = &compilation{}
		v.entry.revisions[one.Spec.Revision] = c
	}
	c.spec = &one.Spec.Snapshot.Spec
	return c
}

// compileCandidate compiles what may compose instances of the kind that the definition has.
func (r *Reconciler) compileCandidate(ctx context.Context, v *visit, c candidate) error {
	if c.spec == nil {
		return nil
	}
	if err := r.refresh(ctx, v, c.compilation); err != nil {
		return err
	}
	if g := c.last.graph; g != nil && g.Kind.GroupKind() != v.wants {
		c.last = compiled{}
		c.last.problems.Addf("spec.schema", "it is of kind %s of %s: a definition of that name had another kind", g.Kind.Kind, g.Kind.GroupVersion())
		c.good, c.input = nil, ""
	}
	return nil
}

// graphOf is the graph by which a revision composes instances, the last that it compiled to;
// problem says why there is none.
func (r *Reconciler) graphOf(ctx context.Context, v *visit, number int64, current *apiextensionsv1.CustomResourceDefinition) (g *graph.Graph, problem string) {
	one := revision.Numbered(v.revisions, number)
	if one == nil {
		if c := v.entry.revisions[number]; c != nil && c.good != nil && r.composes(v, number) {
			return c.good, "" // somebody has done away with it; it is in memory
		}
		return nil, fmt.Sprintf("there is no revision %d; there are %s", number, revision.List(v.revisions))
	}
	c := candidate{number, r.revision(v, one)}
	if err := r.compileCandidate(ctx, v, c); err != nil {
		r.doubt(v, err)
		return c.good, "it can't be told now what revision " + fmt.Sprint(number) + " comes to: " + err.Error()
	}
	if r.lastGood(ctx, c.compilation) == nil {
		return nil, fmt.Sprintf("revision %d can't serve: %s", number, told(c.last.problems.Sorted().Err()))
	}
	if current != nil {
		wanted := crd.For(c.good, c.spec.Schema, v.owner, crd.Options{Version: r.Version, MoreColumns: r.MoreColumns})
		if of, is := crd.Hub(wanted), crd.Hub(current); of != is {
			return nil, fmt.Sprintf("revision %d is written in version %s, and instances are stored in %s", number, of, is)
		}
		if changes := crd.Lacking(current, wanted); len(changes) > 0 && number != v.step.Now.Serving {
			return nil, fmt.Sprintf("revision %d can't be served beside what serves now, whose kind has no room for its instances: %s", number, broken(changes))
		}
	}
	return c.good, ""
}

// composes says whether instances are composed by a revision now.
func (r *Reconciler) composes(v *visit, number int64) bool {
	return slices.Contains(v.step.Now.Revisions(), number) || v.entry.chooser != nil && v.entry.chooser.graphs[number] != nil
}

// doubt notes what couldn't be found out, so that the pass is repeated.
func (r *Reconciler) doubt(v *visit, err error) {
	if v.unsure == nil {
		v.unsure = err
	}
}

// used are the numbers of the revisions that something needs, as far as known says that
// this can be told: those that compose instances or are about to, that are asked for, and
// what the definition is.
func (r *Reconciler) used(v *visit) (used map[int64]bool, known bool) {
	used = map[int64]bool{v.target.Number: true, v.status.ServingRevision: true}
	if newest := revision.Newest(v.revisions); newest != nil {
		used[newest.Spec.Revision] = true
	}
	for _, state := range []revision.State{v.step.Now, v.step.Next, revision.StateOf(v.status)} {
		for _, n := range state.Revisions() {
			used[n] = true
		}
	}
	settled := len(v.revisions) <= revision.Limit(v.spec) && !anyDeleted(v.revisions)
	if settled {
		return used, true // nobody has to go: whom instances ask for makes no difference
	}
	pins, known := r.pins(v)
	for n := range pins {
		used[n] = true
	}
	return used, known
}

func anyDeleted(all []*rev.GraphRevision) bool {
	for _, one := range all {
		if one.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// describe says by which revision instances are composed, and why.
func describe(v *visit) string {
	serving := v.step.Next.Serving
	text := fmt.Sprintf("revision %d compiled and active", serving)
	if v.target.Why != revision.Latest && v.target.Number == serving {
		text += fmt.Sprintf("; %s asks for it", v.target.Asked)
		if newest := revision.Newest(v.revisions); newest != nil && newest.Spec.Revision != serving {
			text += fmt.Sprintf(", the newest is %d", newest.Spec.Revision)
		}
	}
	return text
}

// rollingOut says how far a rollout is, while one is under way.
func rollingOut(s *v1alpha1.RolloutStatus) string {
	return strings.TrimSpace(fmt.Sprintf("revision %d is rolled out: %s", s.Revision, s.Message))
}
