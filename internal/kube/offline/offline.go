// Package offline is a cluster in memory, for work without an API server: an empty one that controllers write to, or a
// record of one that is only read. It has the kinds of Kubernetes, those of CustomResourceDefinitions, and no
// controllers and webhooks: objects of Kubernetes' own kinds get no defaults.
// See docs/design/0016-the-controllers-without-effect.md.
package offline

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/builtin/admission"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
)

// New returns an overlay over an empty cluster, and a connection through it. All that is written is in the
// overlay.
func New() (*dryrun.Overlay, *rest.Config) {
	overlay := dryrun.New()
	for _, k := range kinds() {
		overlay.AddKind(schema.GroupResource{Group: k.Group, Resource: k.Plural}, k.Kind, func(version string) dryrun.Admission {
			a, err := admission.New(schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Kind})
			if err != nil {
				return nil // it has no such version
			}
			return a
		})
	}
	return overlay, overlay.Wrap(newServer().config())
}

// Open returns a connection to a record of a cluster, which refuses writes. Of several states of an object the last
// counts. A kind is served if Kubernetes has it, if the record has its CustomResourceDefinition, or if it has an object
// of it.
func Open(objects []*unstructured.Unstructured) *rest.Config {
	s, overlay := newServer(), dryrun.New()
	for _, o := range objects {
		s.serveDefined(o)
	}
	for _, o := range objects {
		overlay.Store(s.resourceOf(o), o)
	}
	for gv, resources := range s {
		for _, r := range resources {
			overlay.AddKind(gv.WithResource(r.Name).GroupResource(), r.Kind, nil)
		}
	}
	config := overlay.Wrap(s.config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	return config
}

// Discovery answers what does not concern objects, for the kinds of Kubernetes.
func Discovery() http.RoundTripper { return newServer() }

// kinds returns the kinds of Kubernetes, without aggregated API servers: a cluster in memory has none.
func kinds() []builtin.Kind {
	var out []builtin.Kind
	for _, k := range builtin.Kinds() {
		if k.Group != "apiregistration.k8s.io" {
			out = append(out, k)
		}
	}
	return out
}

type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	const why = "this is a record of a cluster, which cannot be changed"
	return respond(r, http.StatusMethodNotAllowed, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, why))
}
