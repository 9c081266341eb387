// Package crd reads CustomResourceDefinitions: the kind that one serves, its versions and
// schemas, and the definition of ours that owns it.
//
// Pure: it decides from values alone.
package crd

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Kind is the kind CustomResourceDefinition.
var Kind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// GroupKind is the kind that a CustomResourceDefinition defines.
func GroupKind(c *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
}

// Decode converts a CustomResourceDefinition from its unstructured form.
func Decode(u *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", u.GetName(), err)
	}
	return out, nil
}

// IsCompared reports whether a definition of ours is compared with this CustomResourceDefinition. All of its content
// matters then, also descriptions.
func IsCompared(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, ours := c.Labels[v1alpha1.OwnedLabel]; ours {
		return true
	}
	_, signed := c.Annotations[v1alpha1.AppliedAnnotation]
	return signed && metav1.GetControllerOfNoCopy(c) != nil
}

// NotEstablishedMessage says why the API server does not serve the kind yet.
func NotEstablishedMessage(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, cond := range c.Status.Conditions {
		if cond.Status == apiextensionsv1.ConditionFalse {
			return fmt.Sprintf("%s: %s", cond.Type, cond.Message)
		}
	}
	return "waiting for the API server to serve the kind"
}

// StorageVersion is the version that objects are stored in.
func StorageVersion(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range c.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// OutdatedStoredVersions lists the versions, other than the storage version, that objects may still be stored in.
func OutdatedStoredVersions(c *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	for _, name := range c.Status.StoredVersions {
		if name != StorageVersion(c) {
			out = append(out, name)
		}
	}
	return out
}

// RemovedStoredVersions lists the versions that objects may be stored in and that the wanted CustomResourceDefinition
// lacks. The API server refuses their removal.
func RemovedStoredVersions(current, wanted *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	for _, stored := range current.Status.StoredVersions {
		if !slices.ContainsFunc(wanted.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			out = append(out, stored)
		}
	}
	return out
}
