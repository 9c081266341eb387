package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/simulation"
)

// splitPackages separates the files that are packages.
func splitPackages(files []string) (packages, others []string) {
	for _, name := range files {
		if strings.HasSuffix(name, xpkg.Extension) {
			packages = append(packages, name)
		} else {
			others = append(others, name)
		}
	}
	return packages, others
}

// packagedObjects returns the objects that would be installed: of the packages in files, and of those that manifests of packages
// name. All problems of all packages are returned at once.
func (f *planFlags) packagedObjects(cmd *cobra.Command, files []string, manifests []simulation.Applied) (out []simulation.Applied, err error) {
	var problems []error
	add := func(source string, kind string, settings map[string]any, pkg *xpkg.Package, found []xpkg.Problem, err error) {
		if err == nil {
			err = xpkg.Errors(found, false)
		}
		if err == nil && kind != "" && pkg.Meta.Kind != kind {
			err = fmt.Errorf("it is a package of the kind %s, not %s", pkg.Meta.Kind, kind)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", source, err))
			return
		}
		out = append(out, installedObjects(source, settings, pkg)...)
	}
	for _, name := range files {
		_, pkg, found, err := readPackage(name)
		add(name, "", nil, pkg, found, err)
	}
	for _, m := range manifests {
		if gvk := m.Object.GroupVersionKind(); gvk.Group == v1.GroupVersion.Group && slices.Contains(packageKinds, gvk.Kind) {
			image, _, _ := unstructured.NestedString(m.Object.Object, "spec", "package")
			settings, _, _ := unstructured.NestedMap(m.Object.Object, "spec")
			pkg, found, err := f.fetchPackage(cmd, image)
			add(m.Source+": "+image, gvk.Kind, settings, pkg, found, err)
		}
	}
	return out, errors.Join(problems...)
}

// installedObjects are the objects of a package that are installed, with the labels and annotations that its object has for them.
func installedObjects(source string, settings map[string]any, pkg *xpkg.Package) (out []simulation.Applied) {
	labels, _, _ := unstructured.NestedStringMap(settings, "commonLabels")
	annotations, _, _ := unstructured.NestedStringMap(settings, "commonAnnotations")
	merge := func(has, more map[string]string) map[string]string {
		for key, value := range more {
			if has == nil {
				has = map[string]string{}
			}
			has[key] = value
		}
		return has
	}
	for _, o := range pkg.Objects {
		if pkg.Installs(o.GroupVersionKind()) {
			o.SetLabels(merge(o.GetLabels(), labels))
			o.SetAnnotations(merge(o.GetAnnotations(), annotations))
			out = append(out, simulation.Applied{Object: o, Source: source, Manager: v1alpha1.ChildManager})
		}
	}
	return out
}

// fetchPackage reads the package of a reference, through the cache.
func (f *planFlags) fetchPackage(cmd *cobra.Command, image string) (*xpkg.Package, []xpkg.Problem, error) {
	reference, err := xpkg.ParseReference(image)
	if err != nil {
		return nil, nil, err
	}
	client, ctx, cancel, err := f.registry.cachedClient(cmd.Context(), f.cacheDir)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	fetched, err := client.Fetch(ctx, registry.Request{Reference: reference, Policy: corev1.PullAlways, Keychain: authn.DefaultKeychain})
	if err != nil {
		return nil, nil, err
	}
	pkg, found := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: string(fetched.Stream)})
	return pkg, found, nil
}
