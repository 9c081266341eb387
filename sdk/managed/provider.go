package managed

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Provider is a set of kinds that are served together.
type Provider struct {
	// Name is a word for people.
	Name string
	// CRDs holds the CustomResourceDefinitions of the kinds, one YAML document a
	// file. They are installed before the kinds are served.
	CRDs  fs.FS
	Kinds []Kind
	// Configs are the kinds that spec.providerConfigRef can name, the one first that
	// it means without saying a kind. A configuration isn't deleted while a managed
	// resource names it: what that stands for couldn't be deleted any more.
	Configs []schema.GroupVersionKind
}
