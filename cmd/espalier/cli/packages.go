package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/simulation"
)

// addPackages adds the flags of commands that run packages on this machine, by default.
func (c *configuration) addPackages(flags *pflag.FlagSet) {
	flags.BoolVar(&c.Functions.RunPackages, "run-packages", c.Functions.RunPackages,
		"fetch the package of a Function that nothing else serves, and run it on this machine")
	flags.StringVar(&c.Functions.CertPath, "function-certs", "",
		"directory with ca.crt, tls.crt and tls.key, for calls of functions by mutual TLS")
	_ = cobra.MarkFlagDirname(flags, "function-certs")
}

// runPackages has packages fetched and run, unless that is switched off, until they are closed. Nothing is fetched
// before a Function needs it.
func (c *configuration) runPackages(o *packages.Options) (stop func(), err error) {
	if !c.Functions.RunPackages || c.Packages.Enabled { // installed packages have revisions and Deployments
		return func() {}, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("where to store packages of functions: %w; set XDG_CACHE_HOME, or switch them off with --run-packages=false", err)
	}
	dir := filepath.Join(user, "espalier", "packages")
	functions, err := local.New(local.Options{
		Fetch: fetchPackage(dir), Store: local.NewStore(filepath.Join(dir, "unpacked")), Environment: o.Environment, Output: o.Output,
	})
	if err != nil {
		return nil, err
	}
	o.Packages = functions
	return functions.Close, nil
}

// fetchPackage fetches images with the credentials of docker login, through the cache in a directory.
func fetchPackage(dir string) local.Fetch {
	return func(ctx context.Context, p local.Package, platform v1.Platform) (v1.Image, error) {
		cache, err := openPackageCache(dir)
		if err != nil {
			return nil, err
		}
		client, err := registry.New(registry.Options{UserAgent: "espalier/" + Version()}, cache)
		if err != nil {
			return nil, err
		}
		reference, err := xpkg.ParseReference(p.Image)
		if err != nil {
			return nil, err
		}
		image, _, err := client.Image(ctx, registry.Request{Reference: reference, Policy: p.Pull, Keychain: authn.DefaultKeychain}, platform)
		return image, err
	}
}

// startPackages has the packages of Functions run before the controllers begin, because a download may take longer than
// their run. What fails is a problem of the compositions that call the function.
func startPackages(ctx context.Context, o packages.Options, objects []*unstructured.Unstructured) error {
	if o.Packages == nil {
		return nil
	}
	for _, u := range objects {
		if u.GroupVersionKind().GroupKind() != packages.FunctionKind.GroupKind() {
			continue
		}
		if p, ok := o.PackageOf(u); ok {
			o.Packages.Start(p)
		}
	}
	return o.Packages.Wait(ctx)
}

func objectsOf(applied []simulation.Applied) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(applied))
	for i, a := range applied {
		out[i] = a.Object
	}
	return out
}
