package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/internal/composition/packages/imageconfig"
	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/signature"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// source is where an image is read from and run from.
type source struct {
	imageconfig.Resolved
	request Request
	// secrets are the pull secrets of the pods: the same credentials as for the package.
	secrets []corev1.LocalObjectReference
}

// readSource resolves an image with the ImageConfigs of the cluster and reads the credentials. It returns false while these are
// not read yet: the lease enqueues the object.
func (c Config) readSource(lease *watch.Lease, image string, settings v1.PackageSettings, of object.Key) (s source, known bool, err error) {
	configs, state := lease.Matching(imageConfigKind, "", labels.Everything())
	if state.Phase != watch.Synced && state.Reason != watch.WaitingForKind {
		return s, false, unavailable(state, "ImageConfigs")
	}
	var all []imageconfig.Config
	for _, o := range configs {
		one, err := decode[v1beta1.ImageConfig](o)
		if err != nil {
			return s, true, err
		}
		all = append(all, imageconfig.Config{Name: one.Name, Spec: one.Spec})
	}
	if s.Resolved, err = imageconfig.Resolve(image, all); err != nil {
		return s, true, err
	}
	s.request.For = of
	if s.request.Reference, err = parseReference(s.Image); err != nil {
		return s, true, err
	}
	if s.request.Policy = corev1.PullIfNotPresent; settings.PackagePullPolicy != nil {
		s.request.Policy = *settings.PackagePullPolicy
	}
	s.secrets = append(s.secrets, settings.PackagePullSecrets...)
	if s.PullSecret != "" {
		s.secrets = append(s.secrets, corev1.LocalObjectReference{Name: s.PullSecret})
	}
	if known, err = c.readCredentials(lease, &s); err != nil || !known || s.Verification == nil {
		return s, known, err
	}
	known, err = c.readAuthorities(lease, &s)
	return s, known, err
}

// readAuthorities reads the keys of who may have signed. Authorities without a key are left out: they cannot be verified, and one of
// the others is enough.
func (c Config) readAuthorities(lease *watch.Lease, s *source) (known bool, err error) {
	var content []any
	for _, a := range s.Verification.Cosign.Authorities {
		if a.Key == nil {
			continue
		}
		ref := a.Key.SecretRef
		if h := a.Key.HashAlgorithm; h != "" && h != "sha256" {
			return true, fmt.Errorf("authority %s: spec.verification.cosign: the hash algorithm %s is not supported, only sha256", a.Name, h)
		}
		o, state := lease.Object(secretKind, c.Namespace, ref.Name)
		switch {
		case state.Phase != watch.Synced:
			return false, unavailable(state, "Secret "+c.Namespace+"/"+ref.Name)
		case o == nil:
			return true, fmt.Errorf("authority %s: there is no Secret %s/%s with the key", a.Name, c.Namespace, ref.Name)
		}
		text := object.SecretData(o)[ref.Key]
		key, err := signature.ParseKey(text)
		if err != nil {
			return true, fmt.Errorf("authority %s: %s of Secret %s/%s: %w", a.Name, ref.Key, c.Namespace, ref.Name, err)
		}
		one := signature.Authority{Name: a.Name, Key: key}
		for _, p := range a.Attestations {
			one.Predicates = append(one.Predicates, p.PredicateType)
		}
		s.request.Authorities = append(s.request.Authorities, one)
		content = append(content, a.Name, string(text), one.Predicates)
	}
	if len(s.request.Authorities) == 0 {
		return true, fmt.Errorf("%s has to be verified (ImageConfig), and no authority has a key: signatures without a key (keyless) are not verified here", s.Image)
	}
	s.request.Credentials += object.Digest(content)
	return true, nil
}

func (c Config) readCredentials(lease *watch.Lease, s *source) (known bool, err error) {
	var contents []map[string][]byte
	var versions []string
	for _, ref := range s.secrets {
		o, state := lease.Object(secretKind, c.Namespace, ref.Name)
		switch {
		case state.Phase != watch.Synced:
			return false, unavailable(state, "Secret "+c.Namespace+"/"+ref.Name)
		case o == nil:
			return true, fmt.Errorf("there is no Secret %s/%s with the credentials for %s", c.Namespace, ref.Name, s.Image)
		}
		contents = append(contents, object.SecretData(o))
		versions = append(versions, string(o.GetUID())+" "+o.GetResourceVersion())
	}
	if len(contents) == 0 {
		return true, nil
	}
	keychain, err := registry.NewKeychain(contents...)
	if err != nil {
		return true, err
	}
	s.request.Keychain, s.request.Credentials = keychain, strings.Join(versions, ", ")
	return true, nil
}

// unavailable is an error if a kind cannot be watched, and nil while it is only not synced yet.
func unavailable(state watch.State, what string) error {
	if state.Phase == watch.Unavailable {
		return fmt.Errorf("cannot read %s: %s", what, state.Message)
	}
	return nil
}

func decode[T any](o *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("%s %s cannot be decoded: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}
