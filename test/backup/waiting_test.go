package backup

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// operator is a definition with a kind of an operator that is not installed, and a kind that its
// instance installs.
var operator = suite.Graph("Early", "", `
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
    - id: crd
      template:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: gadgets.own.$GROUP}
        spec:
          group: own.$GROUP
          scope: Namespaced
          names: {kind: Gadget, plural: gadgets}
          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
    - id: gadget
      template: {apiVersion: own.$GROUP/v1, kind: Gadget, metadata: {name: "${schema.metadata.name}"}}
    - id: foo
      template: {apiVersion: later.$GROUP/v1, kind: Foo, metadata: {name: "${schema.metadata.name}"}}
`)

// TestADefinitionWithAMissingKindIsImported exports a definition that waits for a kind, and imports it
// where that kind is not served either: it waits there too.
func TestADefinitionWithAMissingKindIsImported(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	p := newPlane(t, config).withNames(testkit.Namespace(t, config), testkit.Group(t))
	stop := p.run(t, nil)
	defer func() { stop() }()
	definition := p.expand("$ID-early")
	p.apply(t, operator)
	p.AwaitReady(t, suite.RGD, "", definition)
	p.apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: bird, namespace: $NS}\n")
	gadget := schema.GroupVersionKind{Group: "own." + p.group, Version: "v1", Kind: "Gadget"}
	p.Await(t, suite.ConfigMap, p.ns, "bird", suite.IsPresent)
	p.Await(t, gadget, p.ns, "bird", suite.IsPresent)

	raw := p.export(t, archive.Selection{Definitions: []string{definition}})
	file, err := archive.Decode(bytes.NewReader(raw), archive.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	note := p.expand("no matches for kind \"Foo\" in version \"later.$GROUP/v1\"")
	if notes := strings.Join(file.Header.Notes, "\n"); !strings.Contains(notes, note) {
		t.Errorf("the notes are %q, without %q", notes, note)
	}
	p.Delete(t, p.kind("Early"), p.ns, "bird")
	p.AwaitGone(t, p.kind("Early"), p.ns, "bird")
	p.Delete(t, suite.RGD, "", definition)
	p.AwaitGone(t, suite.RGD, "", definition)

	if err := p.importer(t, config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady(t, suite.RGD, "", definition)
	p.Await(t, suite.ConfigMap, p.ns, "bird", suite.IsPresent)
	p.Await(t, suite.CRD, "", "gadgets."+gadget.Group, func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionStatus(o, "Established") != "True" {
			return errors.New("is not established")
		}
		return nil
	})
	p.Await(t, gadget, p.ns, "bird", suite.IsPresent)
	p.Delete(t, p.kind("Early"), p.ns, "bird")
	p.AwaitGone(t, p.kind("Early"), p.ns, "bird")
	p.Delete(t, suite.RGD, "", definition)
	p.AwaitGone(t, suite.RGD, "", definition)
}
