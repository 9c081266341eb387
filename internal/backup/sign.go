package backup

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// sign signs an object that is about to be created, as a child and as an instance, with the key of
// this installation: the signatures in an export are those of another.
func (i *Import) sign(ctx context.Context, o *unstructured.Unstructured) error {
	set := o.GetLabels()[v1alpha1.ApplySetPartOfLabel]
	parent, isChild := i.instanceOfSet(set)
	isChild = isChild && inventory.Node(o) != ""
	if !isChild && !inventory.IsInstance(o) {
		return nil
	}
	if i.keys.IsZero() {
		var err error
		if i.keys, err = i.signingKeys(ctx); err != nil {
			return err
		}
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if isChild {
		annotations[v1alpha1.SignatureAnnotation] = i.keys.SignatureOf(string(i.hold.GetUID()), parent, object.KeyOf(o), inventory.Node(o))
	}
	if inventory.IsInstance(o) {
		annotations[v1alpha1.ApplySetHashAnnotation] = i.keys.SignatureOfInventory(object.KeyOf(o),
			annotations[v1alpha1.ApplySetKindsAnnotation], annotations[v1alpha1.ApplySetNamespacesAnnotation])
	}
	o.SetAnnotations(annotations)
	return nil
}

// instanceOfSet is the exported instance with the id of an ApplySet.
func (i *Import) instanceOfSet(id string) (object.Key, bool) {
	if i.sets == nil {
		i.sets = map[string]object.Key{}
		for _, instance := range i.File.Sections[archive.Instances] {
			key := object.KeyOf(instance)
			i.sets[inventory.ApplySetID(key)] = key
		}
	}
	key, known := i.sets[id]
	return key, known
}

// signingKeys reads the keys that the controllers have created.
func (i *Import) signingKeys(ctx context.Context) (inventory.Keys, error) {
	bindings, err := i.get(ctx, crdKind, "", "bindings.espalier.dev")
	if err != nil {
		return inventory.Keys{}, err
	}
	if bindings == nil || bindings.GetAnnotations()[v1alpha1.SigningKeyAnnotation] == "" {
		return inventory.Keys{}, errors.New("the cluster records no signing key; start the controllers, which create one, with 'espalier run', and run the import again")
	}
	namespace := bindings.GetAnnotations()[v1alpha1.SigningKeyAnnotation]
	secret, err := i.get(ctx, secretKind, namespace, v1alpha1.SigningKeySecret)
	switch {
	case err != nil:
		return inventory.Keys{}, err
	case secret == nil:
		return inventory.Keys{}, fmt.Errorf("the signing key, Secret %s/%s, is missing", namespace, v1alpha1.SigningKeySecret)
	}
	keys, err := inventory.KeysOf(secret)
	if err != nil {
		return inventory.Keys{}, fmt.Errorf("the signing key, Secret %s/%s, is invalid: %w", namespace, v1alpha1.SigningKeySecret, err)
	}
	return keys, nil
}
