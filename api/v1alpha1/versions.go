package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Version is a further version in which a kind is served, beside the one that the
// graph is written in and instances are stored in. It is an addition of Espalier's.
type Version struct {
	// Name is the version's name, such as v1alpha1.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$`
	Name string `json:"name"`

	// Served says whether the version may be used; it may by default. A version has to
	// be unserved before it is taken off the list.
	//
	// +optional
	Served *bool `json:"served,omitempty"`

	// Deprecated makes the API server warn whoever uses the version, with
	// deprecationWarning or a text of its own.
	//
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`

	// DeprecationWarning is the text of the warning.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecationWarning string `json:"deprecationWarning,omitempty"`

	// Spec holds the fields of an instance's spec in this version, in SimpleSchema.
	// Without it they are those of the schema.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty"`

	// Types names object types that spec may use, beside those of the schema.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Types runtime.RawExtension `json:"types,omitempty"`

	// AdditionalPrinterColumns replace the default columns of kubectl get in this
	// version. Without them they are those of the schema.
	//
	// +optional
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// Conversion says what became of fields that have moved. A field that both versions
	// have, at the same path with the same type, is carried over without being named.
	//
	// +optional
	Conversion *Conversion `json:"conversion,omitempty"`
}

// Conversion says how an object of a version becomes one of the schema's, and back.
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

	// Keep lists fields, such as spec.adminPassword, that are kept in an annotation of
	// the object where the other version has no room for them, although their names
	// suggest secrets. Other fields are kept without being listed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Keep []string `json:"keep,omitempty"`

	// Drop lists fields that aren't kept where the other version has no room for them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Drop []string `json:"drop,omitempty"`
}

// ConvertedFields are fields of an object, as expressions over another.
type ConvertedFields struct {
	// Spec holds the fields as expressions, such as {"host": "${self.spec.network.host}"}.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty"`
}

// IsServed says whether the version may be used.
func (v *Version) IsServed() bool { return v.Served == nil || *v.Served }
