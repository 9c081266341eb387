package server

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/controller"
	images "github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/serving/demand"
)

// PackageOptions are how packages are installed.
type PackageOptions struct {
	// Namespace has the Secrets with credentials for registries, and what runs of packages.
	Namespace string
	// CacheDir is a directory for what is read from registries.
	CacheDir string
	// Registries is how registries are reached.
	Registries images.Options
	// ProviderPermissions bound what is granted to the ServiceAccounts of providers; none grants nothing.
	ProviderPermissions []rbacv1.PolicyRule
	// DefaultActivations are the definitions of managed resources that the first activation policy activates.
	DefaultActivations []string
	// External are the kinds of packages whose programs run elsewhere.
	External []string
}

// crossplaneVersion is the version of Crossplane whose packages are compatible: what their metadata is compared with.
const crossplaneVersion = "2.4.0"

// maxCache bounds the cache of packages, in bytes. The chart has a volume of twice that.
const maxCache = 1 << 30

// startPackages serves packages and their revisions.
func (c *Controllers) startPackages(ctx context.Context) error {
	o := c.options.Packages
	cache, err := images.OpenCache(o.CacheDir, maxCache)
	if err != nil {
		return err
	}
	client, err := images.New(o.Registries, cache)
	if err != nil {
		return err
	}
	config := controller.Config{
		Cluster: c.Client, DryRun: c.Client.DryRun(), Hub: c.Hub, CRDs: definitions{c.Kinds}, Events: c.options.Events, Enqueue: c.Enqueue, Now: c.options.Now,
		Namespace: o.Namespace, ProviderPermissions: o.ProviderPermissions, Version: crossplaneVersion, Crossplane: c.crossplane, Resolution: &controller.Resolution{},
		Images: &controller.Images{Registry: client, Enqueue: c.Enqueue, Now: c.options.Now, Context: ctx},
	}
	certificates := &controller.Certificates{Cluster: c.Client, Namespace: o.Namespace, Now: c.options.Now}
	config.Certificates, config.External = certificates, map[string]bool{}
	for _, kind := range o.External {
		config.External[kind] = true
	}
	config.Runtime = &controller.Deployments{Cluster: c.Client, Certificates: certificates, Namespace: o.Namespace, Now: c.options.Now}
	for _, kind := range controller.PackageKinds {
		c.Serve(controller.RevisionKind(kind), &controller.Revisions{Config: config, Package: kind})
		c.Serve(kind, &controller.Packages{Config: config, Kind: kind})
	}
	c.Serve(controller.ManagedKind, &controller.Managed{Config: config})
	c.Serve(controller.PolicyKind, &controller.Activations{Config: config, Default: o.DefaultActivations, Definitions: demand.Definitions{
		Kinds: slices.DeleteFunc(slices.Clone(demand.Kinds), func(k schema.GroupVersionKind) bool {
			return k.Group == v1alpha1.GroupVersion.Group && !c.dialects.serves(Graph)
		}),
		Matches: func(kind schema.GroupKind) bool { return !strings.Contains(kind.Group, "$") }, // others are expressions
		IsDefined: func(kind schema.GroupKind) bool {
			_, defined := c.Kinds.CRD(kind)
			return defined
		},
	}})
	c.Enqueue(controller.ActivationKey) // also without a policy, definitions may compose managed resources
	c.Serve(controller.LockKind, &controller.Locks{Config: config})
	c.Enqueue(controller.ResolutionKey) // also before there is a Lock
	return nil
}

type definitions struct{ *kube.Kinds }

func (d definitions) Named(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
	found := d.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == name })
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// packageOf returns the revisions and the definition of a managed resource that own a CustomResourceDefinition: when its controller
// lets it go, another of them may become that.
func packageOf(c *apiextensionsv1.CustomResourceDefinition) (out []object.Key) {
	for _, owner := range c.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		if kind.Group == pkgv1.GroupVersion.Group || kind == controller.ManagedKind {
			out = append(out, object.Key{Group: kind.Group, Kind: kind.Kind, Name: owner.Name})
		}
	}
	return out
}

// packageOptions returns nil if no packages are installed.
func (c ControllerConfiguration) packageOptions() *PackageOptions {
	if !c.Packages.Enabled {
		return nil
	}
	var external []string
	for kind, runtime := range map[string]PackageRuntime{pkgv1.ProviderKind: c.Packages.Runtime.Provider, pkgv1.FunctionKind: c.Packages.Runtime.Function} {
		if runtime == ExternalRuntime {
			external = append(external, kind)
		}
	}
	return &PackageOptions{
		Namespace: c.packageNamespace(),
		CacheDir:  cmp.Or(c.Packages.CacheDir, defaultPackageCache()), Registries: images.Options{Insecure: c.Packages.InsecureRegistries},
		ProviderPermissions: c.Packages.ProviderPermissions, DefaultActivations: c.Packages.DefaultActivations, External: external,
	}
}

func (c ControllerConfiguration) packageNamespace() string {
	return cmp.Or(c.Packages.Namespace, c.LeaderElection.Namespace, manager.PodNamespace(), DefaultPackageNamespace)
}

// DefaultPackageNamespace is the namespace of packages of controllers that run outside of a cluster: Crossplane's.
const DefaultPackageNamespace = "crossplane-system"

// defaultPackageCache is a directory of this user.
func defaultPackageCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "espalier", "packages")
}
