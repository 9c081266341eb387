// Package managed is what providers of managed resources are written with. An
// author writes the Go types of the kinds, and for each a Client: a handful of
// calls that look at an external resource, say what is to be asked, and ask it.
// The runtime does the rest: it stores every intent before it is carried out, finds
// out what came of calls whose answer was lost, keeps names from being taken twice,
// and tells of all that in the conditions that users know.
package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Object is a managed resource of a provider's own Go type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client looks after the external resources of one kind, as the managed resource
// that it was connected for is configured. It is used by one goroutine, and is done
// with when a pass over the managed resource is.
//
// None of its methods changes the managed resource, and none but Begin changes
// anything outside.
type Client[M Object] interface {
	// Identify says which place the external resource takes. It makes no calls. The
	// name is empty where the external API assigns one; elsewhere it is the annotation
	// crossplane.io/external-name, if that is set, so that a resource that is there can
	// be taken on.
	Identify(M) (external.Key, error)

	// Observe looks at the external resource of an identity. An error means that
	// nothing is known; that there is none is an observation.
	Observe(ctx context.Context, m M, ref external.Ref) (external.Observation, error)

	// Find lists the external resources that carry a mark: those of its ID, or, if
	// that is empty, those of its Owner, which are looked for before a first creation,
	// since the binding that knew of them may have been lost. It is called only where
	// Caps say that it can.
	Find(ctx context.Context, m M, key external.Key, mark external.Mark) ([]external.Observation, error)

	// Prepare freezes what is to be asked. It makes no calls and puts no secret into
	// the request. What was observed is given for updates and deletions, by this client
	// and in this pass, so that it may have kept more of it.
	Prepare(m M, verb external.Verb, seen external.Observation) (external.Request, error)

	// Begin makes exactly one call that changes something: the one of the intent,
	// which has been stored. It may be repeated with the same intent. How it went is
	// in the answer; an error beside it counts as one whose effect isn't known.
	Begin(ctx context.Context, m M, intent external.Intent) (external.Op, error)

	// Poll asks how an operation is that Begin has begun, perhaps in another
	// process. It is safe to repeat. An operation that has failed is Done, with an
	// error in the answer; that it couldn't be asked for is an error beside it.
	Poll(ctx context.Context, m M, op external.Op) (external.Op, error)
}
