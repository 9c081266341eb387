package definition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// candidate is a revision that may compose instances, or, with number 0, the definition
// itself if no revision of it is kept.
type candidate struct {
	number int64
	*compilation
}

// isUnrecorded reports whether the candidate is the definition itself.
func (c candidate) isUnrecorded() bool { return c.number == 0 }

// mayServe reports whether there is a candidate whose kind is published: it serves, or is rolled out.
func (v *session) mayServe() bool { return v.choice.candidate.compilation != nil && v.readiness.Ready }

// obstacle says why the requested revision cannot serve; the previous one continues.
type obstacle struct{ reason, message string }

// chooseRevision chooses the revision that the definition requests for its instances. There is no candidate if the serving
// revision continues.
func (v *session) chooseRevision(ctx context.Context) {
	v.choice.target = revision.TargetOf(v.GetAnnotations(), v.source.spec, v.history.revisions)
	waves, problems := revision.WavesOf(v.source.spec)
	v.choice.waves = waves
	if v.source.unreadable {
		return // the serving revision continues
	}
	v.setCandidate(problems)
	if v.choice.candidate.compilation != nil && !v.canServe(ctx) {
		v.choice.candidate = candidate{}
	}
}

// setCandidate sets the candidate that the target requests, or the obstacle to it. The problems are about the waves.
func (v *session) setCandidate(problems diag.List) {
	t := &v.choice.target
	switch {
	case len(t.Problems) > 0:
		v.choice.obstacle = obstacle{revisionMissing, messageOf(t.Problems.Sorted().Err())}
	case v.history.unrecorded.reason == revisionsUnreadable && (v.memory.composers != nil || v.status.ServingRevision != 0 &&
		(v.choice.waves.Any() || revision.StateOf(v.status).Rolling() != 0)):
		// The serving revision continues, or waits until it is known.
	case t.Reason == revision.Latest && v.history.unrecorded.reason != "":
		t.Number, t.Revision = 0, nil
		v.choice.candidate = candidate{0, v.memory.compiled.own}
	case t.Revision == nil && t.Reason != revision.Latest:
		v.choice.obstacle = obstacle{revisionMissing, fmt.Sprintf("revision %d, which %s requests, does not exist; existing revisions: %s", t.Number,
			t.Source, revision.ListNumbers(v.history.revisions))}
	case t.Revision == nil:
		// No revision exists yet: the definition's conditions say why.
	case len(problems) > 0 && v.status.ServingRevision != 0 && v.status.ServingRevision != t.Number:
		v.choice.obstacle = obstacle{rolloutInvalid, messageOf(problems.Err())}
	default:
		v.choice.candidate = candidate{t.Number, v.compilationOf(t.Revision)}
		if len(problems) > 0 { // there is nothing to roll out now
			v.choice.obstacle = obstacle{rolloutInvalid, messageOf(problems.Err())}
		}
	}
}

// canServe compiles the candidate, and reports whether it can serve the instances. If not, the obstacle, lookupErr or a
// condition of the graph says why.
func (v *session) canServe(ctx context.Context) bool {
	c := v.choice.candidate
	if err := v.compileCandidate(ctx, c); err != nil {
		v.lookupErr = err
		return false
	}
	_, problem := v.accountFor(c.number)
	if problem == "" && v.choice.target.Reason != revision.Latest {
		problem = v.requestProblem(c.number)
	}
	switch {
	case problem != "" && v.account.Cluster == nil:
		return false // the condition of the graph says why
	case problem != "":
	case c.last.graph != nil:
		return true
	case c.isUnrecorded() || c.number == v.history.current:
		return false // the condition of the graph says why
	default:
		problem = messageOf(c.last.problems.Sorted().Err())
	}
	v.choice.obstacle = obstacle{revisionInvalid, fmt.Sprintf("revision %d cannot serve: %s", c.number, problem)}
	return false
}

func (v *session) compilationOf(one *rev.GraphRevision) *compilation {
	c, known := v.memory.compiled.revisions[one.Spec.Revision]
	if !known {
		c = &compilation{}
		v.memory.compiled.revisions[one.Spec.Revision] = c
	}
	c.spec = &one.Spec.Snapshot.Spec
	return c
}

func (v *session) compileCandidate(ctx context.Context, c candidate) error {
	if c.spec == nil {
		return nil
	}
	if err := v.recompile(ctx, c.compilation); err != nil {
		return err
	}
	if g := c.last.graph; g != nil && g.Kind.GroupKind() != v.source.kind {
		c.last = compiled{}
		c.last.problems.Addf("spec.schema", "is of kind %s of %s: a former definition of the name had another kind", g.Kind.Kind, g.Kind.GroupVersion())
		c.good, c.input = nil, ""
	}
	return nil
}

// graphOf returns the last graph that compiled; problem says why there is none.
func (v *session) graphOf(ctx context.Context, number int64, current *apiextensionsv1.CustomResourceDefinition) (g *graph.Graph, problem string) {
	one := revision.FindNumber(v.history.revisions, number)
	if one == nil {
		if c := v.memory.compiled.revisions[number]; c != nil && c.good != nil && v.composes(number) {
			if problem := v.publishesSecrets(number, c.good); problem != "" {
				return nil, problem
			}
			return c.good, "" // the revision is deleted, and its graph still in memory
		}
		return nil, fmt.Sprintf("revision %d does not exist; existing revisions: %s", number, revision.ListNumbers(v.history.revisions))
	}
	c := candidate{number, v.compilationOf(one)}
	if err := v.compileCandidate(ctx, c); err != nil {
		v.recordLookupError(err)
		return c.good, fmt.Sprintf("cannot compile revision %d: %v", number, err)
	}
	if v.lastGood(ctx, c.compilation) == nil {
		return nil, fmt.Sprintf("revision %d cannot serve: %s", number, messageOf(c.last.problems.Sorted().Err()))
	}
	if problem := v.publishesSecrets(number, c.good); problem != "" {
		return nil, problem
	}
	if _, problem := v.accountFor(number); problem != "" {
		return nil, fmt.Sprintf("revision %d cannot serve: %s", number, problem)
	}
	if current != nil {
		wanted := kind.For(c.good, c.spec.Schema, v.owner, kind.Options{Version: v.Version, AdditionalPrinterColumns: v.AdditionalPrinterColumns})
		if of, is := crd.StorageVersion(wanted), crd.StorageVersion(current); of != is {
			return nil, fmt.Sprintf("revision %d has version %s, but instances are stored in version %s", number, of, is)
		}
		if problem := v.lacksFieldsOf(number, wanted); problem != "" {
			return nil, problem
		}
	}
	return c.good, ""
}

// lacksFieldsOf says why a revision that does not serve yet cannot serve with the kind as it is published: the API server
// would drop fields of its instances.
func (v *session) lacksFieldsOf(number int64, wanted *apiextensionsv1.CustomResourceDefinition) (problem string) {
	if number == v.rollout.step.Now.Serving {
		return ""
	}
	whole, known := v.Kinds.WholeCRD(crd.GroupKind(wanted))
	if !known {
		return fmt.Sprintf("revision %d cannot serve: its kind does not exist", number)
	}
	if changes := kind.MissingFields(whole, wanted); len(changes) > 0 {
		return fmt.Sprintf("revision %d cannot serve: the schema of the served kind lacks fields of it: %s", number, kind.Describe(changes))
	}
	return ""
}

// publishesSecrets says why a revision that puts data of Secrets into outputs cannot serve. One that serves already
// continues; no user can request another one, such as a tenant for an instance.
func (v *session) publishesSecrets(number int64, g *graph.Graph) (problem string) {
	if len(g.SecretOutputs) == 0 || v.SecretOutputs == graph.WarnOfSecretOutputs || slices.Contains(revision.StateOf(v.status).Revisions(), number) {
		return ""
	}
	return fmt.Sprintf("revision %d cannot serve: %s", number, messageOf(g.SecretOutputs.Err()))
}

func (v *session) composes(number int64) bool {
	return slices.Contains(v.rollout.step.Now.Revisions(), number) || v.memory.composers != nil && v.memory.composers.graphs[number] != nil
}

// A failed lookup of a kind repeats the reconcile.
func (v *session) recordLookupError(err error) {
	if v.lookupErr == nil {
		v.lookupErr = err
	}
}

// revisionsInUse returns the numbers of the revisions that compose instances or will, that instances or the
// definition request, and of the definition's current one. known is false while the requests of instances are
// unknown.
func (v *session) revisionsInUse() (used map[int64]bool, known bool) {
	used = map[int64]bool{v.choice.target.Number: true, v.status.ServingRevision: true}
	if newest := revision.Newest(v.history.revisions); newest != nil {
		used[newest.Spec.Revision] = true
	}
	for _, state := range []revision.State{v.rollout.step.Now, v.rollout.step.Next, revision.StateOf(v.status)} {
		for _, n := range state.Revisions() {
			used[n] = true
		}
	}
	if len(v.history.revisions) <= revision.HistoryLimit(v.source.spec) && !anyDeleted(v.history.revisions) {
		return used, true // no revision is to be deleted, whatever instances request
	}
	pins, known := v.pinnedRevisions()
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

func (v *session) servingMessage() string {
	serving := v.rollout.step.Next.Serving
	text := fmt.Sprintf("revision %d compiled and active", serving)
	if v.choice.target.Reason != revision.Latest && v.choice.target.Number == serving {
		text += fmt.Sprintf("; requested by %s", v.choice.target.Source)
		if newest := revision.Newest(v.history.revisions); newest != nil && newest.Spec.Revision != serving {
			text += fmt.Sprintf(", newest is %d", newest.Spec.Revision)
		}
	}
	return text
}

func rolloutMessage(s *v1alpha1.RolloutStatus) string {
	return strings.TrimSpace(fmt.Sprintf("rolling out revision %d: %s", s.Revision, s.Message))
}
