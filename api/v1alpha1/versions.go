package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Version is a further version in which a kind is served, in addition to schema.apiVersion. It
// is an addition of Espalier's.
type Version struct {
	// Name is the version's name, such as v1alpha1.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$`
	Name string `json:"name"`

	// Served is whether the API server serves the version; true by default. A version must be
	// unserved before it is removed from the list.
	//
	// +optional
	Served *bool `json:"served,omitempty"`

	// Deprecated makes the API server warn clients that use the version, with
	// deprecationWarning or a default text.
	//
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`

	// DeprecationWarning is the text of the warning.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecationWarning string `json:"deprecationWarning,omitempty"`

	// Spec holds the fields of an instance's spec in this version, in SimpleSchema.
	// By default they are those of the schema.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty"`

	// Types names object types that spec may use, in addition to those of the schema.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Types runtime.RawExtension `json:"types,omitempty"`

	// AdditionalPrinterColumns replace the default columns of kubectl get in this
	// version. By default they are those of the schema.
	//
	// +optional
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// Conversion converts fields that have moved. A field that both versions have, at the
	// same path with the same type, is copied without being listed.
	//
	// +optional
	Conversion *Conversion `json:"conversion,omitempty"`
}

// Conversion converts an object of a version to the version of the schema, and back.
type Conversion struct {
	// To holds fields of the schema's spec, whose expressions read the object in this
	// version as self.
	//
	// +optional
	To *ConvertedFields `json:"to,omitempty"`

	// From holds fields of this version's spec, whose expressions read the object in
	// the schema's version as self.
	//
	// +optional
	From *ConvertedFields `json:"from,omitempty"`

	// Keep lists fields, such as spec.adminPassword, that are kept in an annotation of the
	// object if the other version has no field for them, although their names suggest
	// secrets. Fields with other names are kept without being listed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Keep []string `json:"keep,omitempty"`

	// Drop lists fields that are dropped if the other version has no field for them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Drop []string `json:"drop,omitempty"`
}

// ConvertedFields are fields of an object, as expressions over an object of another version.
type ConvertedFields struct {
	// Spec holds the fields as expressions, such as {"host": "${self.spec.network.host}"}.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty"`
}

// IsServed reports whether the API server serves the version.
func (v *Version) IsServed() bool { return v.Served == nil || *v.Served }
