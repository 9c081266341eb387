package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// maxPackageCache bounds the packages that are stored for a user, in bytes.
const maxPackageCache = 1 << 30

func newXpkg() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "xpkg",
		Short:   "Build, push, inspect and install packages of definitions, functions and providers",
		Example: "  espalier xpkg build -f platform-package/ -o platform.xpkg",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newXpkgBuild(), newXpkgPush(), newXpkgInspect(), newXpkgInstall(), newXpkgList())
	return cmd
}

// registryFlags are how registries are reached.
type registryFlags struct {
	caBundle string
	insecure []string
	timeout  time.Duration
}

func (f *registryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.caBundle, "ca-bundle", "", "file with certificates to trust besides the system's")
	cmd.Flags().StringSliceVar(&f.insecure, "insecure-registry", nil,
		"host of a registry without a valid certificate, or without TLS; repeatable")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long the registry may take")
	_ = cmd.MarkFlagFilename("ca-bundle", "crt", "pem")
	_ = cmd.RegisterFlagCompletionFunc("insecure-registry", cobra.NoFileCompletions)
}

// client returns a client, and the context of its requests.
func (f *registryFlags) client(ctx context.Context, cache *registry.Cache) (*registry.Client, context.Context, context.CancelFunc, error) {
	o := registry.Options{Insecure: f.insecure, UserAgent: "espalier/" + Version()}
	if f.caBundle != "" {
		var err error
		if o.CABundle, err = os.ReadFile(f.caBundle); err != nil {
			return nil, nil, nil, err
		}
	}
	client, err := registry.New(o, cache)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	return client, ctx, cancel, nil
}

// cachedClient returns a client with the cache in a directory, or in the one of the user.
func (f *registryFlags) cachedClient(ctx context.Context, dir string) (*registry.Client, context.Context, context.CancelFunc, error) {
	cache, err := openPackageCache(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	return f.client(ctx, cache)
}

// openPackageCache opens the cache in a directory, or in the one of the user.
func openPackageCache(dir string) (*registry.Cache, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("where to store packages: %w; name a directory with --cache-dir", err)
		}
		dir = filepath.Join(user, "espalier", "packages")
	}
	return registry.OpenCache(dir, maxPackageCache)
}

// readPackage reads a file with a package: its image, as a registry gets it, what it consists of, and its problems.
func readPackage(path string) (v1.Image, *xpkg.Package, []xpkg.Problem, error) {
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s is not a package: %w", path, err)
	}
	if image, err = xpkg.Annotate(image, nil); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	stream, err := xpkg.Stream(image)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	pkg, problems := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: string(stream)})
	return image, pkg, problems, nil
}

// readPart reads a file that a package is built of.
func readPart(path string) (text string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(f, xpkg.MaxStream+1))
	if err == nil && len(raw) > xpkg.MaxStream {
		err = fmt.Errorf("%s has more than %d bytes", path, xpkg.MaxStream)
	}
	return string(raw), err
}
