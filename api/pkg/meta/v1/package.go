// Package v1 holds the metadata of packages: the one object of meta.pkg.crossplane.io in the YAML stream of each. It is read from files and
// images, never from an API server. The three kinds, and the versions v1alpha1, v1beta1 and v1, have the same fields.
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Group is the API group of the metadata of packages.
const Group = "meta.pkg.crossplane.io"

// Kinds of packages.
const (
	ConfigurationKind = "Configuration"
	FunctionKind      = "Function"
	ProviderKind      = "Provider"
)

// GraphsAnnotation on the metadata of a Configuration, with the value "true", allows definitions of kro.run in the package. Crossplane refuses
// to parse a package that contains such a definition, so the author of a package says that it is for Espalier.
const GraphsAnnotation = "espalier.dev/graphs"

// Package is the metadata of a package, of any of the three kinds.
type Package struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec     Spec              `json:"spec,omitempty"`
}

// Spec is what a package says about itself.
type Spec struct {
	// Crossplane is which versions of Crossplane the package works with.
	Crossplane *CrossplaneConstraints `json:"crossplane,omitempty"`

	// DependsOn are the packages that this one needs.
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// Capabilities are words that others understand, such as composition, operation and safe-start.
	Capabilities []string `json:"capabilities,omitempty"`
}

// CrossplaneConstraints are versions of Crossplane.
type CrossplaneConstraints struct {
	// Version is a range of semantic versions.
	Version string `json:"version"`
}

// Dependency is a package that another one needs: either one of provider, configuration and function, or apiVersion, kind and package together.
type Dependency struct {
	APIVersion    *string `json:"apiVersion,omitempty"`
	Kind          *string `json:"kind,omitempty"`
	Package       *string `json:"package,omitempty"`
	Provider      *string `json:"provider,omitempty"`
	Configuration *string `json:"configuration,omitempty"`
	Function      *string `json:"function,omitempty"`

	// Version is a range of semantic versions, or a digest.
	Version string `json:"version"`
}
