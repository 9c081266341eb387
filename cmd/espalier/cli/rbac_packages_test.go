package cli

import (
	"debug/elf"
	"strings"
	"testing"
)

const bucketKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.s3.example.org}
spec:
  group: s3.example.org
  names: {kind: Bucket, plural: buckets}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestRolesOfAProvider prints what Crossplane would grant it, from the package in a registry and then from the cache.
func TestRolesOfAProvider(t *testing.T) {
	p := newPackages(t)
	p.file(t, "s3/crossplane.yaml", "apiVersion: meta.pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: provider-s3, labels: {pkg.crossplane.io/provider-family: aws}}\nspec: {capabilities: [SafeStart]}\n")
	p.file(t, "s3/bucket.yaml", bucketKind)
	file, to := p.path("s3.xpkg"), p.registry+"/team/provider-s3:v1.0.0"
	built := must(t, "xpkg", "build", "-f", p.path("s3"), "--embed-runtime-binary", p.program(t, elf.EM_X86_64), "-o", file)
	digest := strings.TrimPrefix(strings.Fields(built)[1], "sha256:")
	must(t, "xpkg", "push", to, "-f", file, "--ca-bundle", p.ca)
	p.file(t, "provider.yaml", "apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: s3}\nspec: {package: \""+to+"\"}\n")
	args := []string{"rbac", "-f", p.path("provider.yaml"), "--ca-bundle", p.ca, "--cache-dir", p.path("cache")}
	code, out, errs := call(t.Context(), "rbac", "-f", p.path("provider.yaml"), "--namespace", "espalier-system", "--ca-bundle", p.ca, "--cache-dir", p.path("cache"))
	if code != exitDone || !strings.Contains(errs, "uses the kinds of the other packages of aws too") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, text := range []string{
		"name: crossplane:provider:s3-" + digest[:12] + ":aggregate-to-edit\n", "name: crossplane:provider:s3-" + digest[:12] + ":aggregate-to-view\n",
		"name: crossplane:provider:s3-" + digest[:12] + ":system\n", "- buckets/finalizers\n", "- customresourcedefinitions\n", "- secrets\n",
		"kind: ClusterRoleBinding\n", "  name: s3-" + digest[:12] + "\n  namespace: espalier-system\n",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in\n%s", text, out)
		}
	}
	if _, out, errs := call(t.Context(), args...); strings.Contains(out, "ClusterRoleBinding") || !strings.Contains(errs, "set --namespace") {
		t.Errorf("without a namespace: %s\n%s", errs, out)
	}
	p.file(t, "provider.yaml", "apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: s3}\nspec: {package: \""+p.registry+"/team/absent:v1\"}\n")
	if code, _, errs := call(t.Context(), args...); code != exitFailed || !strings.Contains(errs, "Provider s3: ") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
