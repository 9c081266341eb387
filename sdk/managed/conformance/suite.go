package conformance

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/sdk/managed"
)

// Suite is what an author says of a kind. Kind and New are needed; each of the others
// lets more be seen.
type Suite[M managed.Object] struct {
	// Kind is the kind as a process has it that has just begun. It is asked for anew
	// after each death, so that what a client keeps in memory is lost.
	Kind func() managed.Kind
	// New returns a valid object of that name. Its external resource must not stand in
	// the way of those of other names.
	New func(name string) M
	// Change makes a change of spec that needs an update; nil for a kind that has none.
	Change func(M)
	// Objects are what Connect may read on the API server, such as a ProviderConfig and
	// its Secret. Their TypeMeta is set, unless they are of Kubernetes itself.
	Objects []runtime.Object

	// Clock is what the external API reads the time from, if it can be told. With one
	// the kit never waits. Without, it does wait, and lives fewer lives.
	Clock *Clock
	// Count says how many external resources there are for an object, found otherwise
	// than by the client. Without it they are counted by the client's own word.
	Count func(context.Context, M) (int, error)
	// Snapshot tells everything of the external API as a text that is the same as long
	// as nothing has changed. Without it a change is seen by Count and by the client's
	// own word.
	Snapshot func(context.Context) (string, error)
	// Troubles are what can go wrong with the external API. That the context of a call
	// has ended is tried in any case.
	Troubles []Trouble
	// Secrets are texts that must not be in anything that is stored or told.
	Secrets []string

	// Lives bounds in how many lives the process dies, and a quarter of it in how many
	// something goes wrong while something is looked at; 0 means all, or a hundred
	// without a Clock. Those that are played are spread over all.
	Lives int
	// Short tries four sets of policies instead of fifteen. Run sets it with -short.
	Short bool
}

// Trouble is something that goes wrong with the external API.
type Trouble struct {
	// Name says what, as in "the network is down".
	Name string
	// Begin makes it go wrong, until end is called.
	Begin func() (end func())
}
