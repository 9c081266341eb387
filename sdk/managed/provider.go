package managed

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Provider is a set of kinds that are served together.
type Provider struct {
	// Name is the provider's name in logs and messages.
	Name string
	// CRDs holds the CustomResourceDefinitions of the kinds, one YAML document per file.
	// They are installed before the kinds are served.
	CRDs  fs.FS
	Kinds []Kind
	// Configs are the kinds that spec.providerConfigRef can refer to; the first is the
	// default. A configuration is not deleted while a managed resource refers to it: without
	// it, the external resource could not be deleted.
	Configs []schema.GroupVersionKind
	// Catalog contains further kinds. Each is installed and served once it is activated by an object of the kind
	// Activations. Both are optional, and are set together.
	Catalog Catalog
	// Activations is the kind of cluster-scoped objects that activate types of the catalog. Its
	// CustomResourceDefinition is among CRDs.
	Activations schema.GroupVersionKind
}
