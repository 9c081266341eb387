// Package controller installs packages in a cluster: it reconciles Providers, Configurations, Functions, their revisions, and the Lock.
//
// A package gets a revision for the content of its image. An active revision installs its objects, if its dependencies are
// satisfied, and starts its program, if it has one; when that is ready, it takes over, and the older revision becomes inactive.
// What packages depend on is decided for all of them together, under one key; nothing else of a package depends on another one.
//
// Registries are read apart from reconciles (Images), so one that is slow or down delays what is new and nothing else: what is
// installed needs none.
//
// Decisions are in the packages resolve, revision, establish and runtime beside this one. See docs/design/0021-packages.md.
package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Manager is the field manager of packages, revisions and the Lock. What they install, and what runs them, is applied as
// v1alpha1.ChildManager, whose fields caches keep.
const Manager = "espalier.dev/packages"

const objectManager = v1alpha1.ChildManager

// AutomaticAnnotation marks a package that was installed as a dependency: its version is changed as its parents need it.
const AutomaticAnnotation = "espalier.dev/dependency"

// PausedAnnotation suspends the reconciles of an object while it is true.
const PausedAnnotation = "crossplane.io/paused"

// PackageKinds are the kinds of packages.
var PackageKinds = []schema.GroupVersionKind{
	v1.GroupVersion.WithKind(v1.FunctionKind), v1.GroupVersion.WithKind(v1.ProviderKind), v1.GroupVersion.WithKind(v1.ConfigurationKind),
}

// LockKind is the kind of the Lock.
var LockKind = v1beta1.GroupVersion.WithKind(v1beta1.LockKind)

var (
	imageConfigKind   = v1beta1.GroupVersion.WithKind(v1beta1.ImageConfigKind)
	runtimeConfigKind = v1beta1.GroupVersion.WithKind(v1beta1.DeploymentRuntimeConfigKind)
	secretKind        = corev1.SchemeGroupVersion.WithKind("Secret")
)

// RevisionKind is the kind of the revisions of a kind of packages.
func RevisionKind(pkg schema.GroupVersionKind) schema.GroupVersionKind {
	pkg.Kind += "Revision"
	return pkg
}

// Cluster reads and writes on the API server; *kube.Client does.
type Cluster interface {
	writer.Cluster
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
	Replace(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	List(ctx context.Context, kind schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error)
	Delete(ctx context.Context, o *unstructured.Unstructured) error
	DeleteIfUnchanged(ctx context.Context, o *unstructured.Unstructured) error
}

// CRDs knows the CustomResourceDefinitions of the cluster.
type CRDs interface {
	// Named returns one without its schemas, and ListCRDs those that match.
	Named(name string) (*apiextensionsv1.CustomResourceDefinition, bool)
	ListCRDs(matches func(*apiextensionsv1.CustomResourceDefinition) bool) []*apiextensionsv1.CustomResourceDefinition
}

// Config is what the reconcilers need.
type Config struct {
	Cluster Cluster
	// DryRun is a Cluster that only checks writes.
	DryRun  Cluster
	Hub     *watch.Hub
	CRDs    CRDs
	Events  telemetry.Recorder
	Enqueue func(object.Key)
	Now     func() time.Time
	// Namespace has the Secrets with credentials, and what runs.
	Namespace string
	Images    *Images
	Runtime   Runtime
	// External are the kinds of packages with programs that run elsewhere. Their operator sets the statuses of the revisions.
	External map[string]bool
	// Certificates issues the certificates of programs.
	Certificates *Certificates
	// ProviderPermissions bound what is granted to the ServiceAccounts of providers; none grants nothing.
	ProviderPermissions []rbacv1.PolicyRule
	// Version is the version of Crossplane that packages are told they run with.
	Version string
	// Crossplane knows whether a Crossplane runs beside this program; nil if that cannot be.
	Crossplane *Crossplane
	// Resolution knows the dependencies of all packages.
	Resolution *Resolution
}

// writer does not record its writes as the reconciler's own: other subscribers need their events, such as a package those of its
// revisions, and who calls functions.
func (c Config) writer() writer.Writer {
	return writer.Writer{Cluster: c.Cluster, Caches: unrecorded{}, Events: c.Events, Manager: Manager, StatusManager: Manager}
}

type unrecorded struct{}

func (unrecorded) Record(*unstructured.Unstructured, watch.Subscriber) {}

func (unrecorded) RecordGone(schema.GroupVersionKind, string, string, string, watch.Subscriber) {}
