package managed

import "io/fs"

// Provider is a set of kinds that are served together.
type Provider struct {
	// Name is a word for people.
	Name string
	// CRDs holds the CustomResourceDefinitions of the kinds, one YAML document a
	// file. They are installed before the kinds are served.
	CRDs  fs.FS
	Kinds []Kind
}
