package conformance

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/sdk/managed"
)

// Suite describes a kind to test. Kind and New are required; each other field enables more
// checks.
type Suite[M managed.Object] struct {
	// Kind returns the kind as a new process has it. It is called again after each crash, so a client loses what it
	// keeps in memory.
	Kind func() managed.Kind
	// New returns a valid object with that name. Its external resource must not conflict with resources of other names.
	New func(name string) M
	// Change makes a change of spec that needs an update; nil for a kind without updates.
	Change func(M)
	// Objects are what Connect may read from the API server, such as a ProviderConfig and its
	// Secret. Their TypeMeta is set, unless they are of Kubernetes itself.
	Objects []runtime.Object

	// Clock is where the external API reads the time from, if it can use a fake clock. With
	// it, nothing waits. Without it, the tests wait in real time and run fewer scenarios.
	Clock *Clock
	// Count returns how many external resources of an object exist, without using the client.
	// If it is nil, they are counted by what the client observes.
	Count func(context.Context, M) (int, error)
	// Snapshot returns the whole state of the external API as a text that is the same as long
	// as nothing has changed. If it is nil, changes are detected with Count and by what the
	// client observes.
	Snapshot func(context.Context) (string, error)
	// Faults are failures of the external API. A canceled context is tested without being
	// listed here.
	Faults []Fault
	// Secrets are texts that must not be in anything that is stored, logged or reported.
	Secrets []string

	// MaxScenarios limits the scenarios with a crash, and a quarter of it the scenarios with a fault during a call that
	// only reads. 0 stands for all, or for a hundred without a Clock. The scenarios that run are spread evenly over
	// all.
	MaxScenarios int
	// Short tests four sets of policies instead of fifteen. Run sets it with -short.
	Short bool
}

// Fault is a failure of the external API.
type Fault struct {
	// Name describes it in the past tense, as in "the network was down".
	Name string
	// Inject makes the API fail until remove is called.
	Inject func() (remove func())
}
