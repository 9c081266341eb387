package establish

import (
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// AuthoritiesAnnotation has the digest of the authorities by which the API server trusts the webhooks that an object names.
const AuthoritiesAnnotation = "espalier.dev/authorities"

// Webhooks are where the webhooks of a package are.
type Webhooks struct {
	Package, Service, Namespace string
	Port                        int64
	// Authorities are certificates in PEM.
	Authorities []byte
}

// Digest identifies the authorities.
func (w Webhooks) Digest() string { return object.Digest(string(w.Authorities)) }

// IsConfiguration reports whether an object is a configuration of webhooks.
func IsConfiguration(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ValidatingWebhookConfiguration" || o.GetKind() == "MutatingWebhookConfiguration"
}

// HasWebhooks reports whether an object names webhooks: for admission, or for the conversion of its kind.
func HasWebhooks(o *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy")
	return IsConfiguration(o) || strategy == "Webhook"
}

// Complete points all webhooks in an object at the package. Configurations of webhooks are named for it, so a package
// has one of each kind.
func (w Webhooks) Complete(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	if IsConfiguration(o) {
		o.SetName("crossplane-provider-" + w.Package)
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(o), err)
		}
		for i := range hooks {
			hook, ok := hooks[i].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: webhook %d is no object", describe(o), i+1)
			}
			if err := w.connect(hook, "clientConfig"); err != nil {
				return nil, fmt.Errorf("%s: webhook %d: %w", describe(o), i+1, err)
			}
		}
		o.Object["webhooks"] = hooks
	} else if err := w.connect(o.Object, "spec", "conversion", "webhook", "clientConfig"); err != nil {
		return nil, fmt.Errorf("%s: %w", describe(o), err)
	}
	o.SetAnnotations(merged(o.GetAnnotations(), map[string]string{AuthoritiesAnnotation: w.Digest()}))
	return o, nil
}

// connect keeps the path of a webhook.
func (w Webhooks) connect(o map[string]any, at ...string) error {
	service := map[string]any{"name": w.Service, "namespace": w.Namespace, "port": w.Port}
	if path, ok, _ := unstructured.NestedString(o, append(append([]string{}, at...), "service", "path")...); ok {
		service["path"] = path
	}
	return unstructured.SetNestedMap(o, map[string]any{"service": service, "caBundle": base64.StdEncoding.EncodeToString(w.Authorities)}, at...)
}
