package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/composition/packages/permissions"
	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// packageFlags are how packages are read.
type packageFlags struct {
	cacheDir string
	registry registryFlags
}

// providersIn returns the Providers in files.
func providersIn(files []*workspace.File) (out []*unstructured.Unstructured) {
	w := workspace.New(files, workspace.Options{Version: Version()})
	for _, d := range w.Documents(schema.GroupKind{Group: pkgv1.GroupVersion.Group, Kind: pkgv1.ProviderKind}) {
		out = append(out, d.Object)
	}
	return out
}

// providerRoles are the roles that Providers need, without any bound. Their packages are read from registries.
func providerRoles(cmd *cobra.Command, flags rbacFlags, providers []*unstructured.Unstructured) (out []any, err error) {
	var all []permissions.Revision
	for _, p := range providers {
		r, err := flags.packages.revision(cmd, p)
		if err != nil {
			return nil, fmt.Errorf("read the package of Provider %s: %w", p.GetName(), err)
		}
		all = append(all, r)
	}
	for _, r := range all {
		var account *rbacv1.Subject
		if flags.namespace != "" {
			subject := rbac.ServiceAccount(flags.namespace, r.Name)
			account = &subject
		}
		g := permissions.Compute(r, all, account, permissions.Unbounded)
		for _, role := range g.Roles {
			role.TypeMeta = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}
			out = append(out, role)
		}
		if g.Binding != nil {
			g.Binding.TypeMeta = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}
			out = append(out, g.Binding)
		}
		if r.Family != "" {
			fmt.Fprintf(prose(cmd.ErrOrStderr()), "espalier: %s uses the kinds of the other packages of %s too: give all of these in one file\n", r.Name, r.Family)
		}
	}
	if flags.namespace == "" {
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: printed no binding, because the namespace of the ServiceAccounts is unknown; set --namespace")
	}
	return out, nil
}

// revision describes the revision that a Provider will have.
func (f packageFlags) revision(cmd *cobra.Command, provider *unstructured.Unstructured) (r permissions.Revision, err error) {
	text, _, _ := unstructured.NestedString(provider.Object, "spec", "package")
	reference, err := xpkg.ParseReference(text)
	if err != nil {
		return r, fmt.Errorf("spec.package: %w", err)
	}
	if reference.Version() == "" {
		return r, errors.New("spec.package has neither a tag nor a digest")
	}
	cache, err := openPackageCache(f.cacheDir)
	if err != nil {
		return r, err
	}
	client, ctx, cancel, err := f.registry.client(cmd.Context(), cache)
	if err != nil {
		return r, err
	}
	defer cancel()
	fetched, err := client.Fetch(ctx, registry.Request{Reference: reference, Policy: corev1.PullAlways, Keychain: authn.DefaultKeychain})
	if err != nil {
		return r, err
	}
	pkg, problems := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: string(fetched.Stream)})
	if err := xpkg.Errors(problems, false); err != nil {
		return r, err
	}
	r = permissions.Revision{
		Name: revision.Name(provider.GetName(), fetched.Digest.String()), Source: reference.Source, Family: pkg.Meta.Metadata.Labels[permissions.FamilyLabel],
	}
	for _, o := range pkg.Objects {
		if kind, ok := permissions.ResourceOf(o.GetKind(), o.GetName()); ok && pkg.Installs(o.GroupVersionKind()) {
			r.Kinds = append(r.Kinds, kind)
		}
	}
	for _, c := range pkg.Meta.Spec.Capabilities {
		r.SafeStart = r.SafeStart || permissions.IsCapability(c, pkgv1.CapabilitySafeStart)
	}
	if len(r.Kinds) == 0 {
		return r, fmt.Errorf("%s installs no kinds: is it a package of the kind Provider?", strings.TrimSpace(pkg.Meta.Kind+" "+text))
	}
	return r, nil
}
