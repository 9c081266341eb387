package install

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// formerAnnotation holds what a CustomResourceDefinition of another program was when this program replaced it, so a
// release can restore it.
const formerAnnotation = "espalier.dev/former-definition"

type former struct {
	Labels        map[string]string           `json:"labels,omitempty"`
	Annotations   map[string]string           `json:"annotations,omitempty"`
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	Spec          any                         `json:"spec"`
}

// SetFormer records on wanted what it replaces: the live object, because caches keep only a part.
func SetFormer(wanted, live *unstructured.Unstructured) error {
	text, err := pack(former{live.GetLabels(), live.GetAnnotations(), live.GetManagedFields(), live.Object["spec"]})
	if err == nil {
		setAnnotation(wanted, formerAnnotation, text)
	}
	return err
}

func keepFormer(wanted *unstructured.Unstructured, current *apiextensionsv1.CustomResourceDefinition) {
	if text := current.Annotations[formerAnnotation]; text != "" && !IsForeign(current) {
		setAnnotation(wanted, formerAnnotation, text)
	}
}

// The annotation does not count as part of what is applied.
func setAnnotation(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// Former returns a CustomResourceDefinition that replaces another program's as it was before that, with its managed
// fields. It returns false if the CustomResourceDefinition replaces none.
func Former(c *unstructured.Unstructured) (out *unstructured.Unstructured, replaced bool, err error) {
	text, replaced := c.GetAnnotations()[formerAnnotation]
	if !replaced {
		return nil, false, nil
	}
	var f former
	if !unpack(text, &f) || f.Spec == nil {
		return nil, false, fmt.Errorf("annotation %s of CustomResourceDefinition %s cannot be decoded", formerAnnotation, c.GetName())
	}
	out = c.DeepCopy()
	out.Object["spec"] = f.Spec
	out.SetLabels(f.Labels)
	out.SetAnnotations(f.Annotations)
	out.SetManagedFields(f.ManagedFields)
	return out, true, nil
}
