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
	if s.Verification != nil {
		return s, true, fmt.Errorf("%s has to be verified (ImageConfig), and signatures are not verified here yet: it is not installed", image)
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
	known, err = c.readCredentials(lease, &s)
	return s, known, err
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
