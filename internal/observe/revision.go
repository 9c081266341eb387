package observe

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Revision is the revision that composes an instance, and why it is that one.
type Revision struct {
	// Of is the definition or composition that it is a revision of.
	Of report.Object `json:"of"`
	// Name is the name of its object, and Number its number among the revisions of the definition. Both are empty if there is none.
	Name   string `json:"name,omitempty"`
	Number int64  `json:"number,omitempty"`
	// Reason is a stable word for why it is this one, and Because the sentences for people.
	Reason  string   `json:"reason"`
	Because []string `json:"because"`
	// Moves lists what would move the instance to another one.
	Moves []string `json:"moves,omitempty"`
	// Ignored are the parts of the composition that have no effect.
	Ignored []string `json:"ignored,omitempty"`
}

// Reasons why a revision composes an instance, besides those of package revision and of the selection of a composition's revision.
const (
	// revisionOfRollout: the rollout has reached the instance.
	revisionOfRollout = "RolledOut"
	// revisionBeforeRollout: a rollout has not reached the instance.
	revisionBeforeRollout = "RolloutPending"
	// revisionOfInstance: the instance selects it.
	revisionOfInstance = "Selected"
	// revisionServing: it served before, and what is requested now cannot serve.
	revisionServing = "Kept"
	// revisionMissing: there is none.
	revisionMissing = "Missing"
)

func (r *Revision) because(sentences ...string) { r.Because = append(r.Because, sentences...) }

func (r *Revision) moves(moves ...string) { r.Moves = append(r.Moves, moves...) }

// addSuspension says that a suspended instance stays as it is.
func (r *Revision) addSuspension(instance *unstructured.Unstructured) {
	state, _, _ := unstructured.NestedString(instance.Object, "status", report.StateField)
	if _, annotated := instance.GetAnnotations()[v1alpha1.ReconcileAnnotation]; annotated && state == string(v1alpha1.InstanceSuspended) {
		r.because("the instance is suspended, and stays as it was composed last")
		r.moves("end the suspension: kubectl annotate " + arguments(report.ObjectOf(instance)) + " " + v1alpha1.ReconcileAnnotation + "-")
	}
}

// title names the revision, for people.
func (r *Revision) title() (title string) {
	title = "No revision of " + r.Of.String()
	switch {
	case r.Of.Name == "":
		title = "No " + strings.ToLower(r.Of.Kind)
	case r.Number != 0 && r.Name != "":
		title = fmt.Sprintf("Revision %d of %s (%s)", r.Number, r.Of, r.Name)
	case r.Number != 0:
		title = fmt.Sprintf("Revision %d of %s", r.Number, r.Of)
	case r.Name != "":
		title = fmt.Sprintf("Revision %s of %s", r.Name, r.Of)
	}
	return title
}

// decode decodes an object into its type; false if it is not one.
func decode(o *unstructured.Unstructured, into any) bool {
	raw, err := json.Marshal(o.Object)
	return err == nil && json.Unmarshal(raw, into) == nil
}
