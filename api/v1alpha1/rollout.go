package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout updates instances to a new revision wave by wave. Each wave must become ready before
// the next begins. Instances in no wave are updated last.
type Rollout struct {
	// Waves are the parts of the instances that are updated one after the other.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Waves []Wave `json:"waves"`

	// MaxUnavailable is how many of the updated instances may be unready while the rollout
	// continues: a number, or a percentage, rounded down; 0 by default.
	//
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// ProgressDeadline is how long the instances of a wave may take to become ready
	// before the rollout is reported as stopped; 10m by default. It continues when they are
	// ready.
	//
	// +optional
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`

	// Paused prevents the next wave from beginning.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Wave is a part of the instances: a percentage of all, those with certain labels, or a
// percentage of those.
//
// +kubebuilder:validation:XValidation:rule="has(self.percent) || has(self.selector)",message="a wave needs percent or selector"
type Wave struct {
	// Percent is the percentage of instances with the new revision after the wave, those of
	// earlier waves included, rounded up. With a selector it is a percentage of the selected
	// instances.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// Selector selects instances by their labels.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Pause is how long to wait before the next wave, once this one is ready.
	//
	// +optional
	Pause *metav1.Duration `json:"pause,omitempty"`
}

// RolloutStatus is the progress of a rollout.
type RolloutStatus struct {
	// Revision is the number of the revision that is rolled out.
	Revision int64 `json:"revision"`

	// Phase is Progressing, Pausing between two waves, Paused by the definition, Stopped at a
	// wave that is not ready, or Complete.
	Phase RolloutPhase `json:"phase"`

	// Wave is the current wave, from 1, and 0 before the first; Waves is their number.
	Wave  int32 `json:"wave"`
	Waves int32 `json:"waves"`

	// Begun are the waves that have begun, as the definition had them then: the instances
	// that they have updated keep the revision if the definition's waves change.
	//
	// +listType=atomic
	Begun []BegunWave `json:"begun,omitempty"`

	// Message describes the state, for people.
	Message string `json:"message,omitempty"`

	// StartedAt is when the rollout began, WaveStartedAt when the current wave did, and
	// WaveReadyAt since when that wave is ready.
	StartedAt     metav1.Time  `json:"startedAt"`
	WaveStartedAt *metav1.Time `json:"waveStartedAt,omitempty"`
	WaveReadyAt   *metav1.Time `json:"waveReadyAt,omitempty"`
	// CompletedAt is when all instances were updated and ready.
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// Total counts the instances to update, Updated those with the revision, and Ready those
	// of them that are ready. Pinned counts the instances that are not updated because they
	// select a revision themselves.
	Total   int64 `json:"total"`
	Updated int64 `json:"updated"`
	Ready   int64 `json:"ready"`
	Pinned  int64 `json:"pinned,omitempty"`

	// Unready lists the first of the updated instances that are not ready.
	//
	// +listType=atomic
	Unready []UnreadyInstance `json:"unready,omitempty"`
}

// BegunWave is a wave that has begun.
type BegunWave struct {
	// Percent and Selector are the fields of the wave.
	Percent  *int32                `json:"percent,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Below is the bound of a wave with a percentage: a selected instance belongs to the wave
	// if the hash of its name is below the bound. Without a bound all selected instances do.
	//
	// +optional
	Below int64 `json:"below,omitempty"`

	// Former is true if the definition's waves have changed since it began.
	Former bool `json:"former,omitempty"`
}

// UnreadyInstance is an instance that a rollout waits for.
type UnreadyInstance struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// RolloutPhase is the phase of a rollout.
type RolloutPhase string

// Phases of a rollout.
const (
	RolloutProgressing RolloutPhase = "Progressing"
	RolloutPausing     RolloutPhase = "Pausing"
	RolloutPaused      RolloutPhase = "Paused"
	RolloutStopped     RolloutPhase = "Stopped"
	RolloutComplete    RolloutPhase = "Complete"
)

// Annotations of Espalier's about revisions that users set.
const (
	// RevisionAnnotation is on an instance: the number of the revision of its definition to
	// compose it with.
	RevisionAnnotation = "espalier.dev/revision"
	// RollbackAnnotation is on a definition: the number of the revision that its instances
	// are rolled back to, at once. With RollbackFromAnnotation it lasts until there is a
	// revision after that one; without, until it is removed.
	RollbackAnnotation     = "espalier.dev/rollback-to"
	RollbackFromAnnotation = "espalier.dev/rollback-from"
	// RolloutAnnotation is on a Composition, whose spec has no field for it: a Rollout, in YAML or JSON.
	RolloutAnnotation = "espalier.dev/rollout"
)

// RolloutStateAnnotation is on the first revision of a Composition with a rollout or a rollback: the revisions that compose
// its instances, and the progress of the rollout. Compositions have no status.
const RolloutStateAnnotation = "espalier.dev/rollout-state"

// ServedAnnotation is on a definition that an import has restored, and on the last revision of
// a deleted definition that has left instances behind: a copy of the status fields about
// revisions. It is used until the definition, or the next one of its name, has a status.
const ServedAnnotation = "espalier.dev/served"
