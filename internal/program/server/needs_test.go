package server_test

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/apiextensions"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/pkg"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	revisions "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// TestNeedsIncludeTheInstalledKinds checks every kind that the controllers install.
func TestNeedsIncludeTheInstalledKinds(t *testing.T) {
	provider := managed.Provider{Name: "things", CRDs: fstest.MapFS{"things.yaml": {Data: []byte(`
spec: {group: things.example.org, names: {plural: things}}
`)}}}
	needs, err := server.Needs(server.ManagerOptions{Providers: []managed.Provider{provider}})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, files := range []fs.FS{v1alpha1.CRDs, revisions.CRDs, pkg.CRDs, apiextensions.CRDs, v1beta1.CRDs, espalier.CRDs, provider.CRDs} {
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal(raw, &crd); err != nil {
				return err
			}
			count++
			verbs := []string{"get", "list", "watch"}
			if crd.Spec.Names.Kind == espalier.RefusedDeletionKind {
				verbs = verbs[:1] // they are read by name
			}
			for _, need := range rbac.PermissionsFor(crd.Spec.Group, crd.Spec.Names.Plural, verbs...) {
				if !slices.Contains(needs, need) {
					t.Errorf("nobody needs to %s", need)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if count < 15 {
		t.Errorf("only %d kinds were found", count)
	}
}

// TestNeedsIncludeOnlyTheServedDialects serves one dialect only.
func TestNeedsIncludeOnlyTheServedDialects(t *testing.T) {
	groups := map[server.Dialect][]string{
		server.Graph:       {"kro.run", "internal.kro.run"},
		server.Composition: {"apiextensions.crossplane.io", "pkg.crossplane.io"},
	}
	for _, served := range server.Dialects {
		needs, err := server.Needs(server.ManagerOptions{Settings: server.Settings{Dialects: []server.Dialect{served}}})
		if err != nil {
			t.Fatal(err)
		}
		for dialect, groups := range groups {
			for _, group := range groups {
				asks := slices.ContainsFunc(needs, func(n rbac.Permission) bool {
					return n.Group == group && n.Resource != "usages" && n.Resource != "usages/status" // usages are served without compositions
				})
				if asks != (dialect == served) {
					t.Errorf("with %s alone rights on %s are asked for: %t", served, group, asks)
				}
			}
		}
	}
}

// TestOnlySecureMetricsNeedTokenReviews checks what --metrics-secure needs.
func TestOnlySecureMetricsNeedTokenReviews(t *testing.T) {
	for secure, want := range map[bool]int{false: 0, true: 1} {
		var o server.ManagerOptions
		o.MetricsSecure = secure
		needs, err := server.Needs(o)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, need := range rbac.PermissionsFor("authentication.k8s.io", "tokenreviews", "create") {
			if slices.Contains(needs, need) {
				got++
			}
		}
		if got != want || !slices.Contains(needs, rbac.PermissionsFor("authorization.k8s.io", "subjectaccessreviews", "create")[0]) {
			t.Errorf("--metrics-secure=%t needs %d permissions for TokenReviews", secure, got)
		}
	}
}

// groups is a catalog that knows its groups.
type groups struct{ managed.Catalog }

func (groups) Groups() []string { return []string{"net.example.org"} }

// TestNeedsIncludeTheGroupsOfACatalog runs a provider with a catalog inside and on its own.
func TestNeedsIncludeTheGroupsOfACatalog(t *testing.T) {
	provider := managed.Provider{Name: "things", CRDs: fstest.MapFS{}, Catalog: groups{}, Activations: schema.GroupVersionKind{Kind: "Activation"}}
	inside, err := server.Needs(server.ManagerOptions{Providers: []managed.Provider{provider}})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := server.ProviderNeeds(provider, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for where, needs := range map[string][]rbac.Permission{"inside": inside, "alone": alone} {
		for _, need := range []rbac.Permission{
			{Verb: "patch", Group: "net.example.org", Resource: "*"}, {Verb: "update", Group: "net.example.org", Resource: "*/status"},
			{Verb: "delete", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, {Verb: "watch", Group: "kro.run", Resource: "resourcegraphdefinitions"},
		} {
			if !slices.Contains(needs, need) {
				t.Errorf("%s: nobody needs to %s", where, need)
			}
		}
	}
}
