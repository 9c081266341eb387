package definition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// candidate is what may compose instances: a revision, or, with number 0, the definition
// itself, where no revision of it is kept.
type candidate struct {
	number int64
	*compilation
}

// obstacle is why what the definition asks for can't serve; what served before goes on.
type obstacle struct{ reason, message string }

// chooseRevision finds what the definition asks its instances to be composed by.
func (r *Dialect) chooseRevision(ctx context.Context, v *session) {
	v.choice.target = revision.TargetOf(v.GetAnnotations(), v.source.spec, v.history.revisions)
	waves, problems := revision.WavesOf(v.source.spec)
	v.choice.waves = waves
	if v.source.unreadable {
		return // what serves goes on
	}
	t := &v.choice.target
	switch {
	case len(t.Problems) > 0:
		v.choice.obstacle = obstacle{revisionMissing, messageOf(t.Problems.Sorted().Err())}
	case v.history.unrecorded.reason == revisionsUnreadable && (v.memory.composers != nil || v.status.ServingRevision != 0 && (v.choice.waves.Any() || revision.StateOf(v.status).Rolling() != 0)):
		return // what serves goes on, or waits until it is known
	case t.Why == revision.Latest && v.history.unrecorded.reason != "":
		t.Number, t.Revision = 0, nil
		v.choice.candidate = candidate{0, v.memory.compiled.own}
	case t.Revision == nil && t.Why != revision.Latest:
		v.choice.obstacle = obstacle{revisionMissing, fmt.Sprintf("there is no revision %d, which %s asks for; there are %s", t.Number, t.Asked, revision.List(v.history.revisions))}
	case t.Revision == nil:
		return // there is none yet: the definition says what is wrong with it
	case len(problems) > 0 && v.status.ServingRevision != 0 && v.status.ServingRevision != t.Number:
		v.choice.obstacle = obstacle{rolloutInvalid, messageOf(problems.Err())}
	default:
		v.choice.candidate = candidate{t.Number, r.compilationOf(v, t.Revision)}
		if len(problems) > 0 { // there is nothing to roll out now
			v.choice.obstacle = obstacle{rolloutInvalid, messageOf(problems.Err())}
		}
	}
	if v.choice.candidate.compilation == nil {
		return
	}
	if err := r.compileCandidate(ctx, v, v.choice.candidate); err != nil {
		v.lookupErr = err
		v.choice.candidate = candidate{}
		return
	}
	if v.choice.candidate.last.graph == nil {
		if v.choice.candidate.number != 0 && v.choice.candidate.number != v.history.current {
			v.choice.obstacle = obstacle{revisionInvalid, fmt.Sprintf("revision %d can't serve: %s", v.choice.candidate.number, messageOf(v.choice.candidate.last.problems.Sorted().Err()))}
		}
		v.choice.candidate = candidate{}
	}
}

// compilationOf is what is known of a revision's graph.
func (r *Dialect) compilationOf(v *session, one *rev.GraphRevision) *compilation {
	c, known := v.memory.compiled.revisions[one.Spec.Revision]
	if !known {
		c = &compilation{}
		v.memory.compiled.revisions[one.Spec.Revision] = c
	}
	c.spec = &one.Spec.Snapshot.Spec
	return c
}

// compileCandidate compiles what may compose instances of the kind that the definition has.
func (r *Dialect) compileCandidate(ctx context.Context, v *session, c candidate) error {
	if c.spec == nil {
		return nil
	}
	if err := r.recompile(ctx, v, c.compilation); err != nil {
		return err
	}
	if g := c.last.graph; g != nil && g.Kind.GroupKind() != v.source.kind {
		c.last = compiled{}
		c.last.problems.Addf("spec.schema", "it is of kind %s of %s: a definition of that name had another kind", g.Kind.Kind, g.Kind.GroupVersion())
		c.good, c.input = nil, ""
	}
	return nil
}

// graphOf is the graph by which a revision composes instances, the last that it compiled to;
// problem says why there is none.
func (r *Dialect) graphOf(ctx context.Context, v *session, number int64, current *apiextensionsv1.CustomResourceDefinition) (g *graph.Graph, problem string) {
	one := revision.Numbered(v.history.revisions, number)
	if one == nil {
		if c := v.memory.compiled.revisions[number]; c != nil && c.good != nil && r.composes(v, number) {
			return c.good, "" // somebody has done away with it; it is in memory
		}
		return nil, fmt.Sprintf("there is no revision %d; there are %s", number, revision.List(v.history.revisions))
	}
	c := candidate{number, r.compilationOf(v, one)}
	if err := r.compileCandidate(ctx, v, c); err != nil {
		r.noteLookupError(v, err)
		return c.good, "it can't be told now what revision " + fmt.Sprint(number) + " comes to: " + err.Error()
	}
	if r.lastGood(ctx, c.compilation) == nil {
		return nil, fmt.Sprintf("revision %d can't serve: %s", number, messageOf(c.last.problems.Sorted().Err()))
	}
	if current != nil {
		wanted := kind.For(c.good, c.spec.Schema, v.owner, kind.Options{Version: r.Version, MoreColumns: r.MoreColumns})
		if of, is := crd.Hub(wanted), crd.Hub(current); of != is {
			return nil, fmt.Sprintf("revision %d is written in version %s, and instances are stored in %s", number, of, is)
		}
		if changes := kind.MissingFields(current, wanted); len(changes) > 0 && number != v.rollout.step.Now.Serving {
			return nil, fmt.Sprintf("revision %d can't be served beside what serves now, whose kind has no room for its instances: %s", number, kind.Describe(changes))
		}
	}
	return c.good, ""
}

// composes says whether instances are composed by a revision now.
func (r *Dialect) composes(v *session, number int64) bool {
	return slices.Contains(v.rollout.step.Now.Revisions(), number) || v.memory.composers != nil && v.memory.composers.graphs[number] != nil
}

// noteLookupError notes what couldn't be found out, so that the pass is repeated.
func (r *Dialect) noteLookupError(v *session, err error) {
	if v.lookupErr == nil {
		v.lookupErr = err
	}
}

// revisionsInUse are the numbers of the revisions that something needs, as far as known says that
// this can be told: those that compose instances or are about to, that are asked for, and
// what the definition is.
func (r *Dialect) revisionsInUse(v *session) (used map[int64]bool, known bool) {
	used = map[int64]bool{v.choice.target.Number: true, v.status.ServingRevision: true}
	if newest := revision.Newest(v.history.revisions); newest != nil {
		used[newest.Spec.Revision] = true
	}
	for _, state := range []revision.State{v.rollout.step.Now, v.rollout.step.Next, revision.StateOf(v.status)} {
		for _, n := range state.Revisions() {
			used[n] = true
		}
	}
	settled := len(v.history.revisions) <= revision.Limit(v.source.spec) && !anyDeleted(v.history.revisions)
	if settled {
		return used, true // nobody has to go: whom instances ask for makes no difference
	}
	pins, known := r.pinnedRevisions(v)
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

// servingMessage says by which revision instances are composed, and why.
func servingMessage(v *session) string {
	serving := v.rollout.step.Next.Serving
	text := fmt.Sprintf("revision %d compiled and active", serving)
	if v.choice.target.Why != revision.Latest && v.choice.target.Number == serving {
		text += fmt.Sprintf("; %s asks for it", v.choice.target.Asked)
		if newest := revision.Newest(v.history.revisions); newest != nil && newest.Spec.Revision != serving {
			text += fmt.Sprintf(", the newest is %d", newest.Spec.Revision)
		}
	}
	return text
}

// rolloutMessage says how far a rollout is, while one is under way.
func rolloutMessage(s *v1alpha1.RolloutStatus) string {
	return strings.TrimSpace(fmt.Sprintf("revision %d is rolled out: %s", s.Revision, s.Message))
}
