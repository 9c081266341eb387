package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
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

// contents lists the plane's objects in an export, as "Kind name", and a Binding with its owner:
// "Binding Kind name".
func (p plane) contents(t *testing.T, raw []byte) []string {
	t.Helper()
	f, err := archive.Decode(bytes.NewReader(raw), archive.MaxBytes)
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
	return out
}

// definitionKinds are the kinds of definitions and of their revisions.
var definitionKinds = []string{"ResourceGraphDefinition", "GraphRevision", "Composition", "CompositionRevision"}

// TestExportsAreRestricted exports by namespace and by definition.
func TestExportsAreRestricted(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	all := []string{
		"Namespace NS", "GraphRevision ID-a-store-r00001", "GraphRevision ID-shelf-r00001",
		"ResourceGraphDefinition ID-shelf", "ResourceGraphDefinition ID-a-store",
		"Bucket alone-NS", "Bucket main-NS", "Network main-NS", "Shelf main-NS", "Store main-NS",
	}
	shelf := []string{"Namespace NS", "GraphRevision ID-shelf-r00001", "ResourceGraphDefinition ID-shelf", "Bucket main-NS", "Network main-NS", "Shelf main-NS"}
	// A network has two Bindings: one of them reserves its identity.
	bindings := []string{"Binding Bucket alone-NS", "Binding Bucket main-NS", "Binding Network main-NS", "Binding Network main-NS"}
	for name, tc := range map[string]struct {
		selection archive.Selection
		want      []string
		bindings  []string
	}{
		"a namespace":                        {archive.Selection{Namespaces: []string{p.ns}}, all, bindings},
		"a definition with its dependencies": {archive.Selection{Definitions: []string{p.expand("$ID-a-store")}}, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "Bucket alone-NS" }), bindings[1:]},
		"a definition that others depend on": {archive.Selection{Definitions: []string{p.expand("$ID-shelf")}}, shelf, bindings[1:]},
		"an empty namespace":                 {archive.Selection{Namespaces: []string{"nowhere"}}, all[1:5], nil},
	} {
		var objects, bindings []string
		for _, text := range p.contents(t, p.export(t, tc.selection)) {
			kind, _, _ := strings.Cut(text, " ")
			switch {
			case kind == "Binding":
				bindings = append(bindings, text)
			case slices.Contains(definitionKinds, kind) && !strings.Contains(text, "ID-"): // of another test
			default:
				objects = append(objects, text)
			}
		}
		slices.Sort(bindings)
		if diff := cmp.Diff(tc.want, objects); diff != "" {
			t.Errorf("%s: objects, -want +got:\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.bindings, bindings); diff != "" {
			t.Errorf("%s: Bindings, -want +got:\n%s", name, diff)
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
	p.DeleteCRD(t, "providerconfigs.sandbox.espalier.dev")
	stop := p.run(t, fakeCloud)
	defer stop()
	p.deleteStock(t, fakeCloud)
}
