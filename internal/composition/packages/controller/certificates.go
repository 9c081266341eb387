package controller

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/issuer"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Names of Secrets, which are Crossplane's, so its certificates are used on.
const (
	// AuthoritySecret has the authority that signs all certificates of packages.
	AuthoritySecret = "crossplane-root-ca"
	// ClientSecret has the certificate with which functions are called.
	ClientSecret = "crossplane-tls-client"
)

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	leafValidity      = 365 * 24 * time.Hour
	// announcement is how long a new authority is known everywhere before it signs: programs read the authorities when they
	// start, and start again once these have changed.
	announcement = 24 * time.Hour
)

// Keys of the Secrets. The next authority has no names in Crossplane, which never renews its own.
const (
	caKey           = "ca.crt"
	nextCertificate = "next.crt"
	nextKey         = "next.key"
)

// Certificates issues the certificates of packages, and renews them. It is safe for concurrent use.
type Certificates struct {
	Cluster   Cluster
	Namespace string
	Now       func() time.Time

	mu sync.Mutex // so that one authority is created
}

// errNotRead says that something is not read yet: the lease brings another reconcile, and until then nothing follows.
var errNotRead = errors.New("it is not read yet")

// issued is a Secret with a certificate.
type issued struct {
	// digest changes when the certificate or the authorities do.
	digest string
	// renewal is when the certificate has to be renewed, or the authority.
	renewal time.Time
	// original says that Crossplane has issued the certificate: it is valid for longer than one of this program's.
	original bool
}

// Ensure makes a Secret have a certificate that is valid for a while, for an owner. Programs that have read it start again when
// the digest changes.
func (c *Certificates) Ensure(ctx context.Context, lease *watch.Lease, name string, l issuer.Leaf, owner *metav1.OwnerReference) (out issued, err error) {
	authority, bundle, until, err := c.authority(ctx, lease)
	if err != nil {
		return out, err
	}
	secret, state := lease.Object(secretKind, c.Namespace, name)
	if state.Phase != watch.Synced {
		return out, secretUnavailable(state, name)
	}
	data := map[string][]byte{}
	if secret != nil {
		data = object.SecretData(secret)
	}
	now := c.Now()
	pair, err := issuer.Check(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], authority.Certificate, l, now)
	if err != nil {
		if data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = authority.Issue(l, leafValidity, now); err != nil {
			return out, err
		}
		if pair, err = issuer.Check(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], authority.Certificate, l, now); err != nil {
			return out, fmt.Errorf("issue a certificate for %s: %w", name, err)
		}
		data[caKey] = nil
	}
	out.renewal = issuer.RenewalOf(pair.Leaf)
	out.original = pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore) > 2*leafValidity
	if until.Before(out.renewal) {
		out.renewal = until
	}
	if !bytes.Equal(data[caKey], bundle) {
		data[caKey] = bundle
		err = c.save(ctx, secret, name, data, owner)
	}
	out.digest = object.Digest([]string{string(data[corev1.TLSCertKey]), string(bundle)})
	return out, err
}

// authority returns what signs now, and all authorities that are to be trusted; until is when one of both changes.
func (c *Certificates) authority(ctx context.Context, lease *watch.Lease) (a issuer.Authority, bundle []byte, until time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	secret, state := lease.Object(secretKind, c.Namespace, AuthoritySecret)
	if state.Phase != watch.Synced {
		return a, nil, until, secretUnavailable(state, AuthoritySecret)
	}
	now := c.Now()
	data := map[string][]byte{}
	if secret != nil {
		data = object.SecretData(secret)
	}
	a, err = issuer.ReadAuthority(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	next, nextErr := issuer.ReadAuthority(data[nextCertificate], data[nextKey])
	changed := false
	switch {
	case err != nil || !now.Before(a.Until()): // there is none, or it is damaged: nothing that it has signed can be used
		if a, err = issuer.NewAuthority("espalier packages", authorityValidity, now); err != nil {
			return a, nil, until, err
		}
		data, changed = map[string][]byte{}, true
		next, nextErr = issuer.Authority{}, errors.New("none")
		bundle = a.Certificate
	case nextErr == nil && !now.Before(next.Since().Add(announcement)):
		bundle = append(bytes.Clone(next.Certificate), a.Certificate...) // what is signed by the one before is still in use
		a, changed = next, true
		delete(data, nextCertificate)
		delete(data, nextKey)
		next, nextErr = issuer.Authority{}, errors.New("none")
	case nextErr != nil && !now.Before(renewalOf(a)):
		if next, nextErr = issuer.NewAuthority("espalier packages", authorityValidity, now); nextErr != nil {
			return a, nil, until, nextErr
		}
		data[nextCertificate], data[nextKey], changed = next.Certificate, next.Key, true
		bundle = append(bytes.Clone(a.Certificate), next.Certificate...)
	case len(data[caKey]) > 0:
		bundle = data[caKey]
	default:
		bundle, changed = a.Certificate, true // Crossplane's
	}
	if until = renewalOf(a); nextErr == nil {
		until = next.Since().Add(announcement)
	}
	if !changed {
		return a, bundle, until, nil
	}
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[caKey] = a.Certificate, a.Key, bundle
	return a, bundle, until, c.save(ctx, secret, AuthoritySecret, data, nil)
}

func renewalOf(a issuer.Authority) time.Time {
	return a.Until().Add(-a.Until().Sub(a.Since()) / 3)
}

func secretUnavailable(state watch.State, name string) error {
	if state.Phase == watch.Unavailable {
		return fmt.Errorf("cannot read Secret %s: %s", name, state.Message)
	}
	return errNotRead
}

// save writes a Secret, unless it has changed since it was read: then the lease brings another reconcile.
func (c *Certificates) save(ctx context.Context, before *unstructured.Unstructured, name string, data map[string][]byte, owner *metav1.OwnerReference) error {
	o := &unstructured.Unstructured{Object: map[string]any{"type": string(corev1.SecretTypeOpaque)}}
	if before != nil {
		o = before.DeepCopy()
	}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(c.Namespace)
	o.SetName(name)
	encoded := map[string]any{}
	for key, raw := range data {
		if raw != nil {
			encoded[key] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	o.Object["data"] = encoded
	if owner != nil && before == nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	var err error
	if before == nil {
		_, err = c.Cluster.Create(ctx, o, Manager)
	} else {
		_, err = c.Cluster.Replace(ctx, o, Manager)
	}
	switch {
	case kube.IsNameTaken(err), before != nil && kube.IsStale(err):
		return errNotRead
	case err != nil:
		return fmt.Errorf("write Secret %s/%s: %w%s", c.Namespace, name, kube.Redacted(err), remedy(err))
	}
	return nil
}

func serverLeaf(name string, hosts []string) issuer.Leaf {
	return issuer.Leaf{Name: name, Hosts: hosts, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func clientLeaf(name string) issuer.Leaf {
	return issuer.Leaf{Name: name, Hosts: []string{name}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}
