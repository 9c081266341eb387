package observe

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// graphRevision is what the revision of an instance of a graph definition follows from.
type graphRevision struct {
	instance, definition *unstructured.Unstructured
	spec                 v1alpha1.DefinitionSpec
	status               v1alpha1.DefinitionStatus
	revisions            []*rev.GraphRevision
	conditions           condition.Set
	target               revision.Target
	Revision
}

// ExplainGraphRevision says which revision of a graph definition composes an instance, and why. Revisions are all GraphRevisions; those
// of other definitions are ignored. It is nil if the definition cannot be decoded.
func ExplainGraphRevision(instance, definition *unstructured.Unstructured, revisions []*unstructured.Unstructured) *Revision {
	var d v1alpha1.ResourceGraphDefinition // a ResourceGroup has the same fields
	if !decode(definition, &d) {
		return nil
	}
	g := graphRevision{instance: instance, definition: definition, spec: d.Spec, status: d.Status, conditions: condition.Read(definition)}
	g.Of = report.ObjectOf(definition)
	of := object.Definition{Name: definition.GetName(), Namespace: definition.GetNamespace()}
	for _, o := range revisions {
		if r := (&rev.GraphRevision{}); decode(o, r) && revision.BelongsTo(r, of) {
			g.revisions = append(g.revisions, r)
		}
	}
	revision.Sort(g.revisions)
	g.target = revision.TargetOf(definition.GetAnnotations(), &g.spec, g.revisions)
	g.explain()
	g.addSuspension(instance)
	return &g.Revision
}

func (g *graphRevision) explain() {
	if pin, pinned := revision.AllowedPinOf(g.instance, inventory.OverridesOf(g.spec.InstanceOverrides)); pinned {
		g.explainPin(pin)
		return
	}
	state := revision.StateOf(g.status)
	g.use(state.For(g.instance.GetNamespace(), g.instance.GetName(), g.instance.GetLabels()))
	switch rolling := state.Rolling(); {
	case g.Number == 0:
		g.Reason = revisionMissing
		g.because("no revision of the definition serves yet")
		g.addObstacle()
	case rolling != 0:
		g.explainRollout(state.Rollout, g.Number == rolling)
	case g.target.Number != g.Number:
		g.explainKept()
	default:
		g.explainTarget()
	}
	if pin, pinned := revision.PinOf(g.instance); pinned {
		g.because(fmt.Sprintf("annotation %s of the instance selects revision %s; the definition does not allow that (spec.instanceOverrides.revision)",
			v1alpha1.RevisionAnnotation, text(pin)))
	}
}

func text(pin revision.Pin) string {
	if pin.Malformed != "" {
		return "none that is valid"
	}
	return fmt.Sprint(pin.Number)
}

// use sets the number and the name of the revision.
func (g *graphRevision) use(number int64) {
	g.Number = number
	if r := revision.FindNumber(g.revisions, number); r != nil {
		g.Name = r.Name
	}
}

// newest says which revision is the newest, if it is another one.
func (g *graphRevision) newest() {
	if newest := revision.Newest(g.revisions); newest != nil && newest.Spec.Revision != g.Number {
		g.because(fmt.Sprintf("the newest revision is %d", newest.Spec.Revision))
	}
}

func (g *graphRevision) edit() string { return "kubectl edit " + arguments(g.Of) }

// explainPin is about a revision that the instance selects.
func (g *graphRevision) explainPin(pin revision.Pin) {
	g.use(pin.Number)
	g.Reason = revisionOfInstance
	switch {
	case pin.Malformed != "":
		g.because(pin.Malformed+"; until it is corrected, the instance is not changed", "existing revisions: "+revision.ListNumbers(g.revisions))
	case g.Name == "":
		g.because(fmt.Sprintf("annotation %s of the instance selects it, and it does not exist, so the instance is not changed; existing revisions: %s",
			v1alpha1.RevisionAnnotation, revision.ListNumbers(g.revisions)))
	default:
		g.because("annotation " + v1alpha1.RevisionAnnotation + " of the instance selects it")
		g.newest()
	}
	instance := arguments(report.ObjectOf(g.instance))
	g.moves("to follow the definition: kubectl annotate "+instance+" "+v1alpha1.RevisionAnnotation+"-",
		"to select another one: kubectl annotate "+instance+" --overwrite "+v1alpha1.RevisionAnnotation+"=NUMBER")
}

// explainRollout is about an instance during a rollout.
func (g *graphRevision) explainRollout(r *v1alpha1.RolloutStatus, reached bool) {
	at := fmt.Sprintf("the rollout of revision %d is at wave %d of %d (%s)", r.Revision, r.Wave, r.Waves, r.Phase)
	if reached {
		g.Reason = revisionOfRollout
		g.because(at + " and has reached the instance")
		g.moves("to go back to the serving revision at once: " + g.rollback(fmt.Sprintf(" --to %d", g.status.ServingRevision)))
	} else {
		g.Reason = revisionBeforeRollout
		g.because(at + " and has not reached the instance")
	}
	if r.Message != "" {
		g.because(r.Message)
	}
	switch r.Phase {
	case v1alpha1.RolloutPaused:
		g.moves("to continue the rollout, remove spec.rollout.paused: " + g.edit())
	case v1alpha1.RolloutStopped, v1alpha1.RolloutProgressing:
		for _, u := range r.Unready[:min(len(r.Unready), maxUnready)] {
			o := report.ObjectOf(g.instance)
			o.Namespace, o.Name = u.Namespace, u.Name
			if o.Key() != object.KeyOf(g.instance) {
				g.moves("the rollout waits for " + inert(o.String()) + ": espalier why " + arguments(o))
			}
		}
	default:
	}
}

// maxUnready bounds how many instances that a rollout waits for are named.
const maxUnready = 3

// explainKept is about a revision that serves although another one is requested.
func (g *graphRevision) explainKept() {
	g.Reason = revisionServing
	switch {
	case g.target.Source != "":
		g.because(fmt.Sprintf("it served before; %s requests revision %d, which does not serve", g.target.Source, g.target.Number))
	default:
		g.because(fmt.Sprintf("it served before; the newest revision, %d, does not serve yet", g.target.Number))
	}
	g.addObstacle()
	if g.target.Reason == revision.RolledBack {
		g.moves("end the rollback: " + g.rollback(" --end"))
	}
}

// explainTarget is about the revision that the definition requests, and that serves.
func (g *graphRevision) explainTarget() {
	g.Reason = string(g.target.Reason)
	switch g.target.Reason {
	case revision.RolledBack:
		until := ", until that is removed"
		if from := g.definition.GetAnnotations()[v1alpha1.RollbackFromAnnotation]; from != "" {
			until = fmt.Sprintf(", until there is a revision after %s", from)
		}
		g.because("the definition is rolled back to it by " + g.target.Source + until)
		g.newest()
		g.moves("end the rollback: " + g.rollback(" --end"))
	case revision.Pinned:
		g.because("spec.revision of the definition selects it for all instances")
		g.newest()
		g.moves("remove or change spec.revision: " + g.edit())
	default:
		g.because("it is the newest one")
		g.addObstacle()
		g.movesOfLatest()
	}
}

// movesOfLatest are what would move an instance away from the newest revision.
func (g *graphRevision) movesOfLatest() {
	how := "at once"
	if waves, problems := revision.WavesOf(&g.spec); len(problems) == 0 && waves.Any() {
		how = "wave by wave (spec.rollout)"
	}
	g.moves("a change of the definition makes the next revision, which composes instances " + how)
	if len(g.revisions) > 1 {
		g.moves("to go back to an earlier one: " + g.rollback(" --to NUMBER"))
	}
}

// addObstacle says why the definition as it is now has no revision, or why the requested one does not serve.
func (g *graphRevision) addObstacle() {
	accepted, _ := g.conditions.Get(v1alpha1.DefinitionGraphAccepted)
	resolved, _ := g.conditions.Get(v1alpha1.DefinitionRevisionsResolved)
	kind, _ := g.conditions.Get(v1alpha1.DefinitionKindReady)
	switch {
	case accepted.Status == condition.False:
		consequence := ""
		if g.Number != 0 {
			g.Reason, consequence = revisionServing, ", so the last one that compiled serves"
		}
		g.because("the definition as it is now is not accepted and gets no revision" + consequence + ": " + strings.TrimSuffix(accepted.Message, "."))
		g.moves("correct the definition: " + g.edit())
	case resolved.Status == condition.False:
		g.because(resolved.Message)
		g.moves("correct the definition: " + g.edit())
	case kind.Status == condition.False && g.Reason == revisionServing:
		g.because(kind.Message)
		g.moves("see what the definition waits for: espalier why " + arguments(g.Of))
	}
}

func (g *graphRevision) rollback(how string) string {
	return "espalier rollback " + g.Of.Name + how + inNamespace(g.Of.Namespace)
}
