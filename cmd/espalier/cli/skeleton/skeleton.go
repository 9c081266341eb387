// Package skeleton generates the files of a new provider, which compiles, passes the conformance
// tests and runs. Its author then replaces its parts.
//
// Pure: it decides from values alone.
package skeleton

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"text/template"

	"github.com/gobuffalo/flect"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/object"
)

// Provider are the names in a new provider.
type Provider struct {
	// Name is the name of the program, Kind and Group those of its kind, and Module the path
	// of the Go module.
	Name, Kind, Group, Module string
	// Version is the version of Espalier, and Replace the path of a checkout to use instead;
	// empty for none.
	Version, Replace string
}

//go:embed files
var files embed.FS

// Singular is the kind's name in file names and in messages.
func (p Provider) Singular() string { return strings.ToLower(p.Kind) }

// Plural is the kind's name in URLs, as the generator of CustomResourceDefinitions makes it.
func (p Provider) Plural() string { return flect.Pluralize(p.Singular()) }

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,50}$`)

var modulePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)

// reservedKinds are names that the package of the kind declares itself.
var reservedKinds = map[string]bool{"GroupVersion": true, "CRDs": true}

// Validate returns an error that names the first invalid name.
func (p Provider) Validate() error {
	if wrong := validation.IsDNS1123Label(p.Name); len(wrong) > 0 {
		return fmt.Errorf("the name %q: %s", p.Name, wrong[0])
	}
	if !kindPattern.MatchString(p.Kind) || strings.HasSuffix(p.Kind, "List") {
		return fmt.Errorf("the kind %q must be in CamelCase, such as Bucket, and must not end with List", p.Kind)
	}
	if reservedKinds[p.Kind] {
		return fmt.Errorf("the kind %q conflicts with a name in the generated package: choose another one", p.Kind)
	}
	if wrong := validation.IsDNS1123Subdomain(p.Group); len(wrong) > 0 {
		return fmt.Errorf("the group %q: %s", p.Group, wrong[0])
	}
	if object.IsKubernetesGroup(p.Group) {
		return fmt.Errorf("the group %q must be a domain of yours, such as things.example.org", p.Group)
	}
	if !modulePattern.MatchString(p.Module) {
		return fmt.Errorf("the module %q must be a path such as example.org/provider-things", p.Module)
	}
	return nil
}

// Files returns the files of the provider by path.
func (p Provider) Files() (map[string][]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	err := fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		t, err := template.New(path).Delims("[[", "]]").Parse(string(text))
		if err != nil {
			return err
		}
		var written bytes.Buffer
		if err := t.Execute(&written, p); err != nil {
			return err
		}
		out[p.path(path)] = written.Bytes()
		return nil
	})
	return out, err
}

// path returns the path of the file of a template.
func (p Provider) path(template string) string {
	path := strings.TrimSuffix(strings.TrimPrefix(template, "files/"), ".tmpl")
	if path == "gitignore" {
		return ".gitignore"
	}
	return strings.NewReplacer("group_plural.", p.Group+"_"+p.Plural()+".", "kind_types.", p.Singular()+"_types.", "kind.", p.Singular()+".").Replace(path)
}
