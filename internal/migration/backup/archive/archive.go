// Package archive defines the content of an export: which objects are in it, in which order,
// which fields are removed, and which are restored by an import. Package backup does the
// reading and writing.
// See docs/design/0009-export-and-import.md.
//
// Pure: it decides from values alone.
package archive

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/apiextensions/v1beta1"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Format is the version of the stream that is written, and the latest that is read.
const Format = 2

// HeaderKind is the kind of a stream's first document. No server serves it.
const HeaderKind = "Export"

// Header is the first document of an export.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Format     int    `json:"format"`
	// ID identifies this export permanently.
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Installation identifies the exported control plane by the UID of its namespace kube-system.
	// Marks on external resources have it.
	Installation string `json:"installation"`
	Version      string `json:"version"`
	// Selection is the requested selection; empty for all objects.
	Selection Selection `json:"selection,omitzero"`
	// Counts are the numbers of objects of each kind that follow. They show whether a stream
	// was truncated.
	Counts map[string]int `json:"counts"`
	// Requires are the kinds that the export's definitions compose and do not define. They
	// have to be installed before an import.
	Requires []Kind `json:"requires,omitempty"`
	// Notes are remarks for the person who imports the export.
	Notes []string `json:"notes,omitempty"`
}

// Kind is a kind with its API version.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// GVK returns the kind as a schema.GroupVersionKind.
func (k Kind) GVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

// KindOf returns the kind as a header has it.
func KindOf(gvk schema.GroupVersionKind) Kind {
	v, k := gvk.ToAPIVersionAndKind()
	return Kind{v, k}
}

// NewHeader returns a header without counts and notes.
func NewHeader(id string, at time.Time, installation, version string) Header {
	return Header{
		APIVersion: espalier.GroupVersion.String(), Kind: HeaderKind, Format: Format,
		ID: id, At: at.UTC().Truncate(time.Second), Installation: installation, Version: version, Counts: map[string]int{},
	}
}

// Section is a part of an export. Sections are imported in their order: what an object
// requires goes before it, and so do the objects that a controller would create for it.
type Section int

// Sections.
const (
	Namespaces Section = iota
	Functions
	Revisions // before their compositions and definitions, whose controllers would create others
	Compositions
	Definitions
	Configs
	Secrets
	Managed
	Bindings
	Instances
	Usages // last, since they would block deletions that an import repeats
)

// AllSections are the sections in their order.
var AllSections = []Section{
	Namespaces, Functions, Revisions, Compositions, Definitions, Configs, Secrets, Managed, Bindings, Instances, Usages,
}

// String returns the section's name for messages.
func (s Section) String() string {
	return [...]string{
		"namespaces", "functions", "revisions of compositions and definitions", "compositions", "definitions", "provider configurations",
		"secrets", "managed resources", "bindings", "instances", "usages",
	}[s]
}

// Kinds that have a section of their own.
var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	secretKind    = schema.GroupKind{Kind: "Secret"}
	bindingKind   = espalier.GroupVersion.WithKind(espalier.BindingKind).GroupKind()

	compositeDefinitionKind = v1.GroupVersion.WithKind(v1.DefinitionKind).GroupKind()
	compositionKind         = v1.GroupVersion.WithKind(v1.CompositionKind).GroupKind()
	revisionKind            = v1.GroupVersion.WithKind(v1.CompositionRevisionKind).GroupKind()
	graphRevisionKind       = rev.GroupVersion.WithKind(rev.GraphRevisionKind).GroupKind()
	functionKind            = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind).GroupKind()
	environmentKind         = v1beta1.GroupVersion.WithKind(v1beta1.EnvironmentConfigKind).GroupKind()
)

// IsDefinition reports whether a kind is one of definitions, of either dialect.
func IsDefinition(gk schema.GroupKind) bool {
	return gk == compositeDefinitionKind || gk.Group == v1alpha1.GroupVersion.Group &&
		(gk.Kind == v1alpha1.ResourceGraphDefinitionKind || gk.Kind == v1alpha1.ResourceGroupKind)
}

// IsConfig reports whether a kind configures providers.
func IsConfig(gk schema.GroupKind) bool {
	return gk.Kind == "ProviderConfig" || gk.Kind == "ClusterProviderConfig"
}

// Configures reports whether a kind configures the provider of a group's managed resources: its
// own group is that group or a parent domain of it.
func Configures(gk schema.GroupKind, group string) bool {
	return IsConfig(gk) && (gk.Group == group || strings.HasSuffix(group, "."+gk.Group))
}

// sectionOf returns the section of a kind, given the kinds that definitions define.
func sectionOf(gk schema.GroupKind, defined map[schema.GroupKind]bool) Section {
	switch {
	case gk == namespaceKind:
		return Namespaces
	case gk == secretKind:
		return Secrets
	case gk == bindingKind:
		return Bindings
	case gk == functionKind, gk == environmentKind: // functions read EnvironmentConfigs
		return Functions
	case gk == revisionKind, gk == graphRevisionKind:
		return Revisions
	case gk == compositionKind:
		return Compositions
	case usage.IsKind(gk):
		return Usages
	case IsDefinition(gk):
		return Definitions
	case IsConfig(gk):
		return Configs
	case defined[gk]:
		return Instances
	}
	return Managed
}

// CountName is a kind's name in Header.Counts.
func CountName(gk schema.GroupKind) string { return gk.String() }

// Sort sorts the objects of a section by key. Order sorts definitions.
func Sort(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return object.KeyOf(a).Compare(object.KeyOf(b))
	})
}
