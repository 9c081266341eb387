package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout says how a new revision reaches the instances: wave by wave, each of which
// has to become ready before the next begins. What no wave reaches follows last.
type Rollout struct {
	// Waves are the parts of the instances that are reached one after the other.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Waves []Wave `json:"waves"`

	// MaxUnavailable is how many of the instances that were reached may be unready
	// while the rollout goes on: a number, or a percentage, rounded down. None, by
	// default.
	//
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// ProgressDeadline is how long the instances of a wave may take to become ready
	// before the rollout is reported as stopped; 10m by default. It goes on by itself
	// when they are.
	//
	// +optional
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`

	// Paused keeps the next wave from beginning.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Wave is a part of the instances: a percentage of all, those with certain labels, or a
// percentage of those.
//
// +kubebuilder:validation:XValidation:rule="has(self.percent) || has(self.selector)",message="a wave needs percent or selector"
type Wave struct {
	// Percent is how many of the instances have the new revision when the wave is
	// over, rounded up: with those of earlier waves. With a selector it is of the
	// instances that this selects.
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

// RolloutStatus is how far a revision has come.
type RolloutStatus struct {
	// Revision is the number of the revision that is rolled out.
	Revision int64 `json:"revision"`

	// Phase is where the rollout is: Progressing, Pausing between two waves, Paused by
	// the definition, Stopped at a wave that isn't ready, or Complete.
	Phase RolloutPhase `json:"phase"`

	// Wave is the wave that is under way, from 1, of so many Waves; 0 before the first.
	Wave  int32 `json:"wave"`
	Waves int32 `json:"waves"`

	// Begun are the waves that have begun, as they were then: instances that they have
	// reached keep the revision, whatever becomes of the definition's waves.
	//
	// +listType=atomic
	Begun []BegunWave `json:"begun,omitempty"`

	// Message describes the state, for people.
	Message string `json:"message,omitempty"`

	// StartedAt is when the rollout began, WaveStartedAt when the wave did, and
	// WaveReadyAt since when it is ready.
	StartedAt     metav1.Time  `json:"startedAt"`
	WaveStartedAt *metav1.Time `json:"waveStartedAt,omitempty"`
	WaveReadyAt   *metav1.Time `json:"waveReadyAt,omitempty"`
	// CompletedAt is when all instances were reached and ready.
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// Total counts the instances that the rollout is to reach, Updated those that have
	// the revision, and Ready those of them that are ready. Pinned counts those that
	// are not reached, since they ask for a revision themselves.
	Total   int64 `json:"total"`
	Updated int64 `json:"updated"`
	Ready   int64 `json:"ready"`
	Pinned  int64 `json:"pinned,omitempty"`

	// Unready lists the first of the instances that were reached and aren't ready.
	//
	// +listType=atomic
	Unready []UnreadyInstance `json:"unready,omitempty"`
}

// BegunWave is a wave that has begun.
type BegunWave struct {
	// Percent and Selector are those of the wave.
	Percent  *int32                `json:"percent,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Below is its bound, where the wave is of a percentage: an instance that is selected,
	// and whose place among all, a hash of its name, is below it belongs to the wave.
	// Without a bound all that are selected do.
	//
	// +optional
	Below int64 `json:"below,omitempty"`

	// Former says that the definition's waves were changed after it had begun.
	Former bool `json:"former,omitempty"`
}

// UnreadyInstance is an instance that a rollout waits for.
type UnreadyInstance struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// RolloutPhase is where a rollout is.
type RolloutPhase string

// Phases of a rollout.
const (
	RolloutProgressing RolloutPhase = "Progressing"
	RolloutPausing     RolloutPhase = "Pausing"
	RolloutPaused      RolloutPhase = "Paused"
	RolloutStopped     RolloutPhase = "Stopped"
	RolloutComplete    RolloutPhase = "Complete"
)

// Annotations of Espalier's that people put on, about revisions.
const (
	// RevisionAnnotation is on an instance: the number of the revision of its
	// definition that it is to be composed by.
	RevisionAnnotation = "espalier.dev/revision"
	// RollbackAnnotation is on a definition: the number of the revision that its
	// instances go back to, at once. With RollbackFromAnnotation it holds until there is a
	// revision after that one; without, until it is taken off.
	RollbackAnnotation     = "espalier.dev/rollback-to"
	RollbackFromAnnotation = "espalier.dev/rollback-from"
)

// ServedAnnotation is on a definition that an import has restored, and on the last revision of
// one that has left instances behind: what its status said of its revisions. It counts until
// the definition, or the next of its name, has a status of its own.
const ServedAnnotation = "espalier.dev/served"
