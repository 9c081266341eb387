package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// loadSigningKeys reads the signing keys of the installation, and creates them if there never
// were any. It records where they are, so that keys that are lost are not replaced: with new ones
// no existing child would be recognized.
func (k *Cluster) loadSigningKeys(ctx context.Context) error {
	namespace := k.options.SigningKeyNamespace
	if namespace == "" {
		return nil
	}
	recorded, err := k.recordedKeyNamespace(ctx)
	if err != nil {
		return err
	}
	if recorded != "" {
		namespace = recorded
	}
	secret, err := k.Client.Get(ctx, inventory.SecretKind, namespace, v1alpha1.SigningKeySecret)
	switch {
	case kube.IsObjectNotFound(err, v1alpha1.SigningKeySecret) && recorded != "":
		return lostSigningKey(namespace)
	case kube.IsObjectNotFound(err, v1alpha1.SigningKeySecret):
		secret, err = k.createSigningKey(ctx, namespace)
	}
	if apierrors.IsForbidden(err) && recorded != "" {
		return forbiddenSigningKey(namespace, err)
	}
	if err != nil {
		return fmt.Errorf("the signing key, Secret %s/%s: %w", namespace, v1alpha1.SigningKeySecret, err)
	}
	if k.Keys, err = inventory.KeysOf(secret); err != nil {
		return fmt.Errorf("the signing key, Secret %s/%s, is invalid: %w. Restore the Secret. With a new key, no existing child is recognized as ours",
			namespace, v1alpha1.SigningKeySecret, err)
	}
	if recorded != "" {
		return nil
	}
	return k.recordKeyNamespace(ctx, namespace)
}

// forbiddenSigningKey is the error of a read that is forbidden in the recorded namespace: printed roles
// are for the namespace of the options.
func forbiddenSigningKey(namespace string, err error) error {
	return fmt.Errorf("the signing key, Secret %s/%s: %w. CustomResourceDefinition %s records this namespace in its annotation %s: "+
		"grant get on the Secret there to the controllers' account only, or move the Secret to the namespace of the lease and change the annotation",
		namespace, v1alpha1.SigningKeySecret, err, bindingsCRD, v1alpha1.SigningKeyAnnotation)
}

func lostSigningKey(namespace string) error {
	return fmt.Errorf("the signing key, Secret %s/%s, is missing. Restore the Secret. With a new key, no existing child is recognized as ours. "+
		"If there is no copy, 'kubectl annotate crd %s %s-' lets the controllers create a new one. Then children of graphs are left in place until their resources adopt them, which needs adopt: IfUnowned",
		namespace, v1alpha1.SigningKeySecret, bindingsCRD, v1alpha1.SigningKeyAnnotation)
}

// createSigningKey creates a key, unless another process is faster.
func (k *Cluster) createSigningKey(ctx context.Context, namespace string) (*unstructured.Unstructured, error) {
	key := make([]byte, inventory.KeySize)
	_, _ = rand.Read(key) // never fails
	var created *unstructured.Unstructured
	// An API server that has just started creates its own namespaces a moment later.
	err := wait.PollUntilContextTimeout(ctx, time.Second, namespaceTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		created, err = k.Client.CreateByPost(ctx, inventory.NewKeySecret(namespace, key), v1alpha1.StatusManager)
		if kube.IsObjectNotFound(err, namespace) {
			return false, nil
		}
		return true, err
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return nil, fmt.Errorf("namespace %s not found", namespace)
	case apierrors.IsAlreadyExists(err):
		return k.Client.Get(ctx, inventory.SecretKind, namespace, v1alpha1.SigningKeySecret)
	}
	return created, err
}

// namespaceTimeout is how long the namespace of the signing key may take to appear.
const namespaceTimeout = 30 * time.Second

// recordedKeyNamespace is the namespace of the signing key as the cluster records it; empty if it
// doesn't yet.
func (k *Cluster) recordedKeyNamespace(ctx context.Context) (string, error) {
	if known, cached := k.CRDs.Get(bindingsCRD); cached && known.Annotations[v1alpha1.SigningKeyAnnotation] != "" {
		return known.Annotations[v1alpha1.SigningKeyAnnotation], nil
	}
	live, err := k.Client.Get(ctx, crd.Kind, "", bindingsCRD)
	if err != nil {
		return "", fmt.Errorf("read CustomResourceDefinition %s: %w", bindingsCRD, err)
	}
	return live.GetAnnotations()[v1alpha1.SigningKeyAnnotation], nil
}

func (k *Cluster) recordKeyNamespace(ctx context.Context, namespace string) error {
	err := retry.OnError(retry.DefaultRetry, kube.IsStale, func() error {
		live, err := k.Client.Get(ctx, crd.Kind, "", bindingsCRD)
		if err != nil {
			return err
		}
		change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.SigningKeyAnnotation: namespace}}}
		_, err = k.Client.Patch(ctx, live, change, v1alpha1.StatusManager)
		return err
	})
	if err != nil {
		return fmt.Errorf("record the namespace of the signing key on CustomResourceDefinition %s: %w", bindingsCRD, err)
	}
	return nil
}
