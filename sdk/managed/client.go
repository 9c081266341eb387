// Package managed is the SDK for providers of managed resources. A provider's author writes the Go types of the kinds,
// and a Client for each: a few methods that observe an external resource, prepare a request and make it. The runtime
// does the rest: it stores every intent before the call is made, resolves the outcome of calls that lost their answer,
// reserves names, and reports all that in the usual conditions. See docs/design/0007-managed-resources.md.
package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Object is a managed resource of a provider's own Go type, or an *unstructured.Unstructured.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client calls the external API for the external resources of one kind. It is connected
// for one managed resource and one reconcile, and used by one goroutine.
//
// No method may change the managed resource. Only Begin may change anything external.
type Client[M Object] interface {
	// Identify returns the key of the external resource. It makes no calls. The name is empty if the external API
	// assigns names. Otherwise it is the annotation crossplane.io/external-name if that is set, so an existing resource
	// can be adopted.
	Identify(M) (external.Key, error)

	// Observe reads the external resource of an identity. That it does not exist is an
	// observation; an error means that nothing is known.
	Observe(ctx context.Context, m M, ref external.Ref) (external.Observation, error)

	// Find lists the external resources that carry a mark: resources with its ID, or, if the ID is empty, with its
	// Owner. The search by owner precedes a first creation, because the binding with the ID may have been lost. It is
	// called only if Caps.Findable is set.
	Find(ctx context.Context, m M, key external.Key, mark external.Mark) ([]external.Observation, error)

	// Prepare computes the request for a verb, which is stored before Begin sends it. It
	// makes no calls and puts no secret into the request. For updates and deletions,
	// observed is this client's own observation in this reconcile, so the client may have
	// kept more details of it.
	Prepare(m M, verb external.Verb, observed external.Observation) (external.Request, error)

	// Begin makes exactly one call that changes something: the one of the intent, which
	// has been stored. It may be called again with the same intent. The answer reports the
	// outcome, including failures. An error beside the answer means that the outcome is
	// unknown.
	Begin(ctx context.Context, m M, intent external.Intent) (external.Op, error)

	// Poll returns the state of an operation that Begin has started, possibly in another
	// process. It is safe to repeat. An operation that has failed is Done, with an error in
	// the answer. An error beside the answer means that the poll itself failed.
	Poll(ctx context.Context, m M, op external.Op) (external.Op, error)
}

// WriteOnlyDigester is implemented by a Client if its external API does not return all values that it accepts, such as
// passwords, so Observe cannot compare them.
type WriteOnlyDigester[M Object] interface {
	// WriteOnlyDigest returns a digest of the write-only values that creations and updates send; empty if there are
	// none. It makes no calls, and no secret can be computed from it: for a value in a Secret, it contains the name and
	// resource version. The runtime stores it with each creation and update that succeeds. If it differs from the
	// stored one, the runtime requests an update, also if Observe reports that the resource is up to date.
	WriteOnlyDigest(M) string
}
