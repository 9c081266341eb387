// Package skeleton writes a provider to begin with: one that compiles, conforms and runs,
// and whose parts are replaced one after the other.
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
)

// Provider is what is said of a provider that there isn't yet.
type Provider struct {
	// Name is the program's, Kind and Group its kind's and Module the Go module's.
	Name, Kind, Group, Module string
	// Version is Espalier's, and Replace a checkout of it that is used instead; empty
	// for none.
	Version, Replace string
}

//go:embed files
var files embed.FS

// Singular is the kind's name in file names and in messages.
func (p Provider) Singular() string { return strings.ToLower(p.Kind) }

// Plural is the kind's name in URLs, as the generator of CustomResourceDefinitions makes it.
func (p Provider) Plural() string { return flect.Pluralize(p.Singular()) }

var kinds = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,50}$`)

var modules = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)

// taken are names of the package that the kind's type is in.
var taken = map[string]bool{"GroupVersion": true, "CRDs": true}

// Validate says why a provider can't be called so.
func (p Provider) Validate() error {
	if wrong := validation.IsDNS1123Label(p.Name); len(wrong) > 0 {
		return fmt.Errorf("the name %q: %s", p.Name, wrong[0])
	}
	if !kinds.MatchString(p.Kind) || strings.HasSuffix(p.Kind, "List") {
		return fmt.Errorf("the kind %q must be in CamelCase, such as Bucket, without a List at its end", p.Kind)
	}
	if taken[p.Kind] {
		return fmt.Errorf("the kind %q has a name that the provider's program uses itself: call it otherwise", p.Kind)
	}
	if wrong := validation.IsDNS1123Subdomain(p.Group); len(wrong) > 0 {
		return fmt.Errorf("the group %q: %s", p.Group, wrong[0])
	}
	if !strings.Contains(p.Group, ".") || strings.HasSuffix(p.Group, ".k8s.io") || strings.HasSuffix(p.Group, ".kubernetes.io") {
		return fmt.Errorf("the group %q must be a domain of yours, such as things.example.org", p.Group)
	}
	if !modules.MatchString(p.Module) {
		return fmt.Errorf("the module %q isn't a path such as example.org/provider-things", p.Module)
	}
	return nil
}

// Files are the provider's, by their paths.
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

// path is where a file goes.
func (p Provider) path(template string) string {
	path := strings.TrimSuffix(strings.TrimPrefix(template, "files/"), ".tmpl")
	if path == "gitignore" {
		return ".gitignore"
	}
	return strings.NewReplacer("group_plural.", p.Group+"_"+p.Plural()+".", "kind_types.", p.Singular()+"_types.", "kind.", p.Singular()+".").Replace(path)
}
