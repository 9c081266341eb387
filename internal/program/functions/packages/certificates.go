package packages

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

func (c *Registry) certificates() pipeline.Certificates {
	if c.options.Certificates != nil || c.options.CertificatesSecret == (SecretName{}) {
		return c.options.Certificates
	}
	return c.secretIdentity
}

// watchSecret watches the Secret, so a call needs no request to the API server.
func (c *Registry) watchSecret() {
	s := c.options.CertificatesSecret
	subscriber := watch.Subscriber{Key: object.Key{Kind: secretKind.Kind, Namespace: s.Namespace, Name: s.Name}}
	changed, closed := make(chan struct{}, 1), make(chan struct{})
	lease := c.hub.BeginFunc(subscriber, func(watch.Cause) {
		select {
		case changed <- struct{}{}:
		default: // it is about to be read
		}
	})
	lease.Watch(watch.Object(secretKind, s.Namespace, s.Name))
	lease.Commit()
	var update sync.WaitGroup
	update.Go(func() {
		for {
			c.updateIdentity()
			select {
			case <-changed:
			case <-closed:
				return
			}
		}
	})
	c.stopFuncs = append(c.stopFuncs, func() {
		c.hub.Forget(subscriber)
		close(closed)
		update.Wait()
	})
}

// updateIdentity reconnects to the functions of packages after the certificates have changed, or can be read now, and
// notifies the subscribers: calls that have failed may succeed.
func (c *Registry) updateIdentity() {
	read, err := c.secretIdentity()
	now := object.Digest([]string{string(read.CA), string(read.Certificate), string(read.Key), fmt.Sprint(err)})
	c.mu.Lock()
	if c.identity == now {
		c.mu.Unlock()
		return
	}
	c.identity = now
	var called []string
	for name, r := range c.routes {
		if r.Backend == BackendPackage {
			called = append(called, name)
		}
	}
	subscribers := slices.Collect(maps.Keys(c.subscribers))
	c.mu.Unlock()
	c.remote.Reconnect(called...)
	notifyAll(subscribers, called)
}

// secretIdentity reads the cache, for each TLS handshake.
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
