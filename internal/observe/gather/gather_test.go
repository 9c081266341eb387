package gather

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/offline"
	"github.com/espalier-dev/espalier/internal/object"
)

// clusterText is a cluster with an instance, its children, and what has nothing to do with it.
const clusterText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.kro.run, labels: {kro.run/owned: "true"}}
spec: {group: kro.run, scope: Namespaced, names: {kind: App, plural: apps, shortNames: [ap]}, versions: [{name: v1alpha1, served: true, storage: true}, {name: v1alpha2, served: true}, {name: old, served: false}]}
---
{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps, uid: d}}
---
apiVersion: kro.run/v1alpha1
kind: App
metadata: {name: web, namespace: prod, uid: a, annotations: {applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Secret,Gone.example.org"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: prod, uid: c, labels: {applyset.kubernetes.io/part-of: x}}}
---
apiVersion: v1
kind: Secret
metadata: {name: web, namespace: prod, labels: {applyset.kubernetes.io/part-of: x}, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"password":"aHVudGVyMg=="}}', kept: x}}
data: {password: aHVudGVyMg==}
stringData: {other: hunter2}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: prod}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: prod}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}
---
{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e1, namespace: prod}, regarding: {uid: a}}
---
{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e2, namespace: prod}, regarding: {uid: z}}
`

func cluster(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(clusterText), 0o600); err != nil {
		t.Fatal(err)
	}
	record, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return record.Objects
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		out = append(out, object.KeyOf(o).String())
	}
	slices.Sort(out)
	return out
}

func TestARecordHasWhatExplainsAClusterAndNoSecrets(t *testing.T) {
	record, err := Collect(t.Context(), offline.Open(cluster(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"App prod/web", "ConfigMap prod/web", "CustomResourceDefinition apps.kro.run", "Event prod/e1", "Namespace prod", "ResourceGraphDefinition apps", "Secret prod/web",
	}
	if diff := cmp.Diff(want, names(record.Objects)); diff != "" || len(record.Notes) > 0 {
		t.Errorf("(-want +got):\n%s\nnotes: %q", diff, record.Notes)
	}
	var archive bytes.Buffer
	if err := record.Write(&archive, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, names(again.Objects)); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(again)
	if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "aHVudGVyMg") || !strings.Contains(string(raw), `"kept":"x"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestANoteIsALineWithoutControlCharacters(t *testing.T) {
	c := &collector{}
	c.note("list things: no\x1b[2J\nnote: nothing is wrong")
	if diff := cmp.Diff([]string{`list things: no\x1b[2J note: nothing is wrong`}, c.record.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyTheNamespacesThatAreAskedFor(t *testing.T) {
	record, err := Collect(t.Context(), offline.Open(cluster(t)), []string{"elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"CustomResourceDefinition apps.kro.run", "ResourceGraphDefinition apps"}, names(record.Objects)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecordsAreReadInManyForms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list := write("list.yaml", "apiVersion: v1\nkind: ConfigMapList\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, 3]\n---\n{just: text}\n---\n")
	write("one.json", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}`)
	write("notes.txt", "no YAML: [\n\nlist things: \x1b[2J\n")
	for path, want := range map[string]struct{ objects, notes []string }{
		list: {objects: []string{"ConfigMap a"}},
		dir:  {[]string{"ConfigMap a", "ConfigMap b"}, []string{"no YAML: [", `list things: \x1b[2J`}},
	} {
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.objects, names(got.Objects)) + cmp.Diff(want.notes, got.Notes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range map[string]string{write("empty.yaml", ""): "has no objects", write("broken.yaml", "a: ["): "broken.yaml", filepath.Join(dir, "none"): "no such file"} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
