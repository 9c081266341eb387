package packages

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// certificates are the client certificates for calls of functions.
func (c *Registry) certificates() pipeline.Certificates {
	if c.options.Certificates != nil || c.options.CertificatesSecret == (SecretName{}) {
		return c.options.Certificates
	}
	return c.secretIdentity
}

// watchSecret watches the Secret, so that a call needs no request to the API server.
func (c *Registry) watchSecret() {
	s := c.options.CertificatesSecret
	subscriber := watch.Subscriber{Key: object.Key{Kind: secretKind.Kind, Namespace: s.Namespace, Name: s.Name}}
	lease := c.hub.Begin(subscriber)
	lease.Watch(watch.Object(secretKind, s.Namespace, s.Name))
	lease.Commit()
	c.stopFuncs = append(c.stopFuncs, func() { c.hub.Forget(subscriber) })
}

// secretIdentity reads the Secret from the cache, for each TLS handshake.
func (c *Registry) secretIdentity() (pipeline.Identity, error) {
	c.secretMu.Lock()
	defer c.secretMu.Unlock()
	s := c.options.CertificatesSecret
	lease := c.hub.Begin(watch.Subscriber{Key: object.Key{Kind: secretKind.Kind, Namespace: s.Namespace, Name: s.Name}})
	defer lease.Discard()
	o, state := lease.Object(secretKind, s.Namespace, s.Name)
	switch {
	case o == nil && state.Phase == watch.Synced:
		return pipeline.Identity{}, fmt.Errorf("there is no Secret %s/%s", s.Namespace, s.Name)
	case o == nil:
		return pipeline.Identity{}, fmt.Errorf("cannot read Secret %s/%s yet: %s", s.Namespace, s.Name, state.Message)
	}
	return identity(o)
}

func identity(secret *unstructured.Unstructured) (pipeline.Identity, error) {
	var out pipeline.Identity
	for _, field := range []struct {
		key string
		to  *[]byte
	}{{"ca.crt", &out.CA}, {corev1.TLSCertKey, &out.Certificate}, {corev1.TLSPrivateKeyKey, &out.Key}} {
		text, _, _ := unstructured.NestedString(secret.Object, "data", field.key)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) == 0 {
			return pipeline.Identity{}, fmt.Errorf("no valid %s in Secret %s/%s", field.key, secret.GetNamespace(), secret.GetName())
		}
		*field.to = data
	}
	return out, nil
}
