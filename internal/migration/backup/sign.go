package backup

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// surveySignatures reads the signing key if objects of the archive will be signed.
func (i *Import) surveySignatures(ctx context.Context, s *survey) error {
	needsKey := slices.ContainsFunc(s.findings, func(step Step) bool {
		_, isChild := i.parentOf(step.object)
		return isChild || inventory.IsInstance(step.object)
	})
	if !needsKey {
		return nil
	}
	keys, problem, err := i.signingKeys(ctx)
	if err != nil {
		return err
	}
	if problem != "" {
		s.problem("%s", problem)
	}
	i.keys = keys
	return nil
}

// sign signs an object that is about to be created, as a child and as an instance, with the key of
// this installation, which the survey has read: the signatures in an export are those of another.
func (i *Import) sign(o *unstructured.Unstructured) {
	parent, isChild := i.parentOf(o)
	if !isChild && !inventory.IsInstance(o) {
		return
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
}

// parentOf is the exported instance that an object is a child of.
func (i *Import) parentOf(o *unstructured.Unstructured) (object.Key, bool) {
	parent, known := i.instanceOfSet(o.GetLabels()[v1alpha1.ApplySetPartOfLabel])
	return parent, known && inventory.Node(o) != ""
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

// signingKeys reads the keys that the controllers have created, or returns why there are none.
func (i *Import) signingKeys(ctx context.Context) (keys inventory.Keys, problem string, err error) {
	bindings, err := i.get(ctx, crdKind, "", "bindings.espalier.dev")
	if err != nil {
		return inventory.Keys{}, "", err
	}
	namespace := ""
	if bindings != nil {
		namespace = bindings.GetAnnotations()[v1alpha1.SigningKeyAnnotation]
	}
	if namespace == "" {
		return inventory.Keys{}, "the cluster records no signing key; start the controllers, which create one, with 'espalier run'", nil
	}
	name := fmt.Sprintf("the signing key, Secret %s/%s,", namespace, v1alpha1.SigningKeySecret)
	secret, err := i.get(ctx, secretKind, namespace, v1alpha1.SigningKeySecret)
	switch {
	case apierrors.IsForbidden(err):
		return inventory.Keys{}, fmt.Sprintf("you are not allowed to read %s which signs what the import creates: grant the verb get on it", name), nil
	case err != nil:
		return inventory.Keys{}, "", err
	case secret == nil:
		return inventory.Keys{}, name + " is missing", nil
	}
	if keys, err = inventory.KeysOf(secret); err != nil {
		return inventory.Keys{}, fmt.Sprintf("%s is invalid: %s", name, err), nil
	}
	return keys, "", nil
}
