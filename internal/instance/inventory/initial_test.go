package inventory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

var (
	webKind        = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Web"}
	webGraph       = object.Definition{Dialect: object.GraphDialect, Name: "webs", UID: "d"}
	onlyConfigMaps = []schema.GroupKind{configMaps}
)

func testKeys(t *testing.T, current string, ids ...string) inventory.Keys {
	t.Helper()
	byID := map[string][]byte{}
	for _, id := range ids {
		byID[id] = []byte(strings.Repeat(id, inventory.KeySize))
	}
	keys, err := inventory.NewKeys(current, byID, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// created is an instance as the API server creates it with the initial metadata.
func created(initial inventory.Initial) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "shop", "namespace": "prod", "uid": "i"}}}
	o.SetGroupVersionKind(webKind)
	o.SetFinalizers([]string{initial.Finalizer})
	o.SetLabels(initial.Labels)
	o.SetAnnotations(initial.Annotations)
	return o
}

func initialOf(keys inventory.Keys, certain bool) inventory.Initial {
	return inventory.InitialOf(webKind.GroupKind(), webGraph, "v1.2.3", keys, onlyConfigMaps, certain, inventory.Defaults{Limits: inventory.Limits{Timeout: time.Minute}})
}

func TestInitialMetadataIsWritten(t *testing.T) {
	text := initialOf(testKeys(t, "a", "a"), true).Text()
	hash := ""
	var rest []string
	for line := range strings.SplitSeq(text, "\n") {
		if after, ok := strings.CutPrefix(line, "annotation:"+v1alpha1.ApplySetHashAnnotation+"="); ok {
			hash = after
			continue
		}
		rest = append(rest, line)
	}
	if !strings.HasPrefix(hash, "hmac-sha256-of-kind:v1:a:") {
		t.Errorf("the signature is %q", hash)
	}
	want := []string{
		"finalizer=kro.run/finalizer",
		"label:kro.run/kro-version=v1.2.3",
		"label:kro.run/owned=true",
		"label:kro.run/resource-graph-definition-id=d",
		"label:kro.run/resource-graph-definition-name=webs",
		"annotation:applyset.kubernetes.io/additional-namespaces=",
		"annotation:applyset.kubernetes.io/contains-group-kinds=ConfigMap",
		"annotation:applyset.kubernetes.io/tooling=kro/v1.2.3",
		"annotation:espalier.dev/deletion-defaults=timeout=1m0s",
	}
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Error(diff)
	}
	for what, got := range map[string]inventory.Initial{
		"children outside of the namespace": initialOf(testKeys(t, "a", "a"), false),
		"no signing key":                    initialOf(inventory.Keys{}, true),
		"a composite":                       inventory.InitialOf(webKind.GroupKind(), object.Definition{Dialect: object.CompositeDialect}, "v1", testKeys(t, "a", "a"), onlyConfigMaps, true, inventory.Defaults{}),
	} {
		if len(got.Labels)+len(got.Annotations) > 0 || got.Finalizer == "" {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestInitialMetadataSavesAWrite compares the metadata with which an instance is created with what a
// reconcile would write.
func TestInitialMetadataSavesAWrite(t *testing.T) {
	keys := testKeys(t, "a", "a")
	annotate := func(key, value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[key] = value
			o.SetAnnotations(annotations)
		}
	}
	cases := map[string]struct {
		change  func(*unstructured.Unstructured)
		kinds   []schema.GroupKind
		keys    inventory.Keys
		version string
		want    bool
	}{
		"as it was created":             {want: true},
		"by an earlier release":         {version: "v1.1.0", want: true},
		"children of another kind":      {kinds: []schema.GroupKind{{Kind: "ConfigMap"}, {Kind: "Secret"}}},
		"no children":                   {kinds: []schema.GroupKind{}},
		"without finalizer":             {change: func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }},
		"without labels":                {change: func(o *unstructured.Unstructured) { o.SetLabels(nil) }},
		"without annotations":           {change: func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }},
		"with an added kind":            {change: annotate(v1alpha1.ApplySetKindsAnnotation, "ConfigMap,Secret")},
		"with an added namespace":       {change: annotate(v1alpha1.ApplySetNamespacesAnnotation, "other")},
		"with other deletion defaults":  {change: annotate(v1alpha1.DeletionDefaultsAnnotation, "")},
		"with another signature":        {change: annotate(v1alpha1.ApplySetHashAnnotation, "hmac-sha256-of-kind:v1:a:AAAA")},
		"after the key was replaced":    {keys: testKeys(t, "b", "a", "b")},
		"of another installation's key": {keys: testKeys(t, "c", "c")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			instance := created(initialOf(keys, true))
			if tc.change != nil {
				tc.change(instance)
			}
			now, kinds, version := keys, onlyConfigMaps, "v1.2.3"
			if !tc.keys.IsZero() {
				now = tc.keys
			}
			if tc.kinds != nil {
				kinds = tc.kinds
			}
			if tc.version != "" {
				version = tc.version
			}
			owner := inventory.OwnerOf(instance, webGraph, version).Recognizing(now, instance, time.Time{})
			m := inventory.MetadataOf(owner, inventory.Of(kinds), inventory.Defaults{Limits: inventory.Limits{Timeout: time.Minute}})
			if got := m.IsOn(instance); got != tc.want {
				t.Errorf("IsOn: %t", got)
			}
		})
	}
}

func TestAnInitialInventoryIsTrusted(t *testing.T) {
	keys := testKeys(t, "a", "a")
	set := func(key, value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[key] = value
			o.SetAnnotations(annotations)
		}
	}
	cases := map[string]struct {
		change          func(*unstructured.Unstructured)
		keys            inventory.Keys
		initial, intact bool
	}{
		"as it was created":            {initial: true, intact: true},
		"after the key was replaced":   {keys: testKeys(t, "b", "a", "b"), initial: true, intact: true},
		"by a key that is gone":        {keys: testKeys(t, "b", "b")},
		"a kind was removed":           {change: set(v1alpha1.ApplySetKindsAnnotation, "")},
		"a namespace was added":        {change: set(v1alpha1.ApplySetNamespacesAnnotation, "other")},
		"the signature was forged":     {change: set(v1alpha1.ApplySetHashAnnotation, "hmac-sha256-of-kind:v1:a:AAAA")},
		"a part of the signature":      {change: set(v1alpha1.ApplySetHashAnnotation, "hmac-sha256-of-kind:v1")},
		"it is of another kind":        {change: func(o *unstructured.Unstructured) { o.SetKind("Other") }},
		"it is written as one's own":   {change: set(v1alpha1.ApplySetHashAnnotation, "hmac-sha256:v1:a:AAAA")},
		"nothing of it is left at all": {change: func(o *unstructured.Unstructured) { o.SetAnnotations(nil); o.SetFinalizers(nil) }, intact: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			instance := created(initialOf(keys, true))
			if tc.change != nil {
				tc.change(instance)
			}
			now := keys
			if !tc.keys.IsZero() {
				now = tc.keys
			}
			owner := inventory.OwnerOf(instance, webGraph, "v1").Recognizing(now, instance, time.Time{})
			if got := owner.HasInitial(instance); got != tc.initial {
				t.Errorf("HasInitial: %t", got)
			}
			if got := owner.IsIntact(instance); got != tc.intact {
				t.Errorf("IsIntact: %t", got)
			}
			if tc.initial {
				if recorded := owner.Recorded(instance); len(recorded.Namespaces) > 0 || !recorded.Contains(inventory.Of(onlyConfigMaps)) {
					t.Errorf("recorded: %v", recorded)
				}
				if got, want := inventory.SetOf(instance), owner.ID(); got != want {
					t.Errorf("SetOf: %s, not %s", got, want)
				}
			}
		})
	}
}
