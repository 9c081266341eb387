package ui

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
)

// Ref names an object, or all objects of a kind.
type Ref struct {
	schema.GroupKind
	Namespace, Name string
}

// TemporaryError says that something cannot be read at the moment. The page shows it and tries again.
type TemporaryError struct{ Text string }

// Error implements error.
func (e *TemporaryError) Error() string { return e.Text }

// Cluster reads with the permissions of one viewer. Each function sends the state once it is read and then after changes, as one if
// the receiver is busy, until the context ends; then all its watches have ended. An error says that nothing can be read; a
// TemporaryError, that it may be possible later.
type Cluster interface {
	// Objects sends the definitions, the instances of their kinds, and the objects of the kinds of the sections; with a section, only those
	// of its kinds. Of those that are no definitions, it sends no specs.
	Objects(ctx context.Context, section string, states chan<- Objects) error
	// Sections returns the sections that have kinds in this cluster, of SectionManaged, SectionPackages and SectionGraphs.
	Sections() []string
	// Definitions sends all definitions with the counts of their instances.
	Definitions(ctx context.Context, states chan<- Definitions) error
	// Definition sends one definition with its revisions.
	Definition(ctx context.Context, of Ref, states chan<- Definition) error
	// Instances sends the objects of a kind, without their specs.
	Instances(ctx context.Context, of Ref, states chan<- []*unstructured.Unstructured) error
	// Events sends the events about an object.
	Events(ctx context.Context, of Ref, states chan<- []*unstructured.Unstructured) error
	// Tree sends the tree of an object. It returns nil after it has sent a state without the object.
	Tree(ctx context.Context, of Ref, states chan<- observe.ClusterState) error
	// IsReachable reports whether the API server has answered the last request. While it does not, states may be old.
	IsReachable() bool
	// Program returns the watches and queues of the running controllers.
	Program(ctx context.Context) ([]page.Watch, []page.Queue, error)
}

// Sections of kinds that no definition serves: managed resources, packages of the composition dialect, and Graphs.
const (
	SectionManaged  = "managed"
	SectionPackages = "packages"
	SectionGraphs   = "graphs"
)

// Objects are definitions and other objects, and what could not be read.
type Objects struct {
	Definitions []page.DefinitionFacts
	Others      []*unstructured.Unstructured
	Problems    []string
}

// Definitions are all definitions, and what could not be read.
type Definitions struct {
	All      []page.DefinitionFacts
	Problems []string
}

// Definition is a definition with its revisions; Problem is why these could not be read.
type Definition struct {
	page.DefinitionFacts
	Revisions []*rev.GraphRevision
	Problem   string
}
