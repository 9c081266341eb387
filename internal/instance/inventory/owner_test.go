package inventory_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

func TestIDIsThatOfKEP3659(t *testing.T) {
	sum := sha256.Sum256([]byte("main.prod.Vpc.kro.run"))
	want := "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
	owner := inventory.OwnerOf(instance(), object.Definition{}, "v1")
	if got := owner.ID(); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	if problems := validation.IsValidLabelValue(want); problems != nil {
		t.Errorf("it is no label value: %v", problems)
	}
	again := instance()
	again.SetUID("i-2")
	if inventory.OwnerOf(again, object.Definition{}, "v1").ID() != want {
		t.Error("the next incarnation doesn't find its children")
	}
	if inventory.ApplySetID(object.Key{Kind: "Vpc", Group: "kro.run", Name: "main"}) == want {
		t.Error("the namespace doesn't count")
	}
}

func TestFinalizer(t *testing.T) {
	cases := map[string]struct {
		definition object.Definition
		want       string
	}{
		"A graph definition's is the dialect's":       {object.Definition{Name: "vpc", UID: "1"}, "kro.run/finalizer"},
		"A group's derives from its name and not UID": {object.Definition{Name: "vpc", Namespace: "team", UID: "1"}, "vpc.team.kro.run/finalizer"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.definition.Finalizer()
			if got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
			if problems := validation.IsQualifiedName(got); problems != nil {
				t.Errorf("no name for a finalizer: %v", problems)
			}
			if !inventory.IsFinalizer(got) {
				t.Error("it isn't recognised")
			}
		})
	}
}

func child() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "x", "labels": map[string]any{"team": "web"}},
		"data":     map[string]any{"a": "b"},
	}}
}

func TestMark(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1").Recognizing(signing.Keys(), instance(), time.Time{})
	o := child()
	owner.Mark(o, inventory.Place{Node: "settings", Layer: 2})
	want := map[string]string{
		"team": "web", "kro.run/owned": "true", "kro.run/kro-version": "v1", "app.kubernetes.io/managed-by": "kro",
		"kro.run/instance-id": "i-1", "kro.run/instance-name": "main", "kro.run/instance-namespace": "prod",
		"kro.run/instance-group": "kro.run", "kro.run/instance-version": "v1alpha1", "kro.run/instance-kind": "Vpc",
		"kro.run/node-id": "settings", "applyset.kubernetes.io/part-of": owner.ID(),
	}
	if diff := cmp.Diff(want, o.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !owner.Owns(o) || inventory.Node(o) != "settings" || inventory.Layer(o) != 2 || inventory.AppliedDigest(o) == "" {
		t.Errorf("what is marked isn't read again: %v", o.GetAnnotations())
	}
}

func TestDigestOfWhatIsApplied(t *testing.T) {
	of := func(version string, layer int, change func(*unstructured.Unstructured)) string {
		owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, version)
		o := child()
		change(o)
		owner.Mark(o, inventory.Place{Node: "settings", Layer: layer})
		return inventory.AppliedDigest(o)
	}
	same := func(*unstructured.Unstructured) {}
	first := of("v1", 1, same)
	cases := map[string]struct {
		got   string
		equal bool
	}{
		"The same object has the same digest":           {of("v1", 1, same), true},
		"Another version of this program doesn't count": {of("v2", 1, same), true},
		"Content counts":   {of("v1", 1, func(o *unstructured.Unstructured) { o.Object["data"] = nil }), false},
		"The layer counts": {of("v1", 2, same), false},
		"Marks of earlier versions don't count": {of("v1", 1, func(o *unstructured.Unstructured) {
			inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1").Mark(o, inventory.Place{Node: "settings", Layer: 1})
		}), true},
	}
	for name, tc := range cases {
		if (tc.got == first) != tc.equal {
			t.Errorf("%s: %s and %s", name, first, tc.got)
		}
	}
}

func TestLayer(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 0, "2": 1, "12": 11} {
		o := child()
		o.SetAnnotations(map[string]string{v1alpha1.ApplyOrderAnnotation: text})
		if got := inventory.Layer(o); got != want {
			t.Errorf("%q: want %d, got %d", text, want, got)
		}
	}
	for _, text := range []string{"", "-1", "many", "99999999999999999999"} {
		o := child()
		o.SetAnnotations(map[string]string{v1alpha1.ApplyOrderAnnotation: text})
		if got := inventory.Layer(o); got < 1000 {
			t.Errorf("%q counts as layer %d; what tells none goes first", text, got)
		}
	}
}

func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"main":         "main",
		"v1.2.3+dirty": "v1.2.3-dirty",
		"(devel)":      "devel",
		"---":          "",
		"größe":        "gr--e",
	} {
		if got := object.LabelValue(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z.-]{50,300}`)).Draw(t, "text")
		got := object.LabelValue(text)
		if problems := validation.IsValidLabelValue(got); problems != nil {
			t.Fatalf("%q becomes %q: %v", text, got, problems)
		}
		if problems := validation.IsValidLabelValue(text); problems == nil && got != text {
			t.Fatalf("%q is a label value and becomes %q", text, got)
		}
	})
}

func TestLongNamesStayApart(t *testing.T) {
	long := "a-name-of-more-than-sixty-three-characters-such-as-people-like-to-give-"
	if a, b := object.LabelValue(long+"a"), object.LabelValue(long+"b"); a == b {
		t.Errorf("both become %s", a)
	}
}

func TestDescribeOwner(t *testing.T) {
	yes := true
	owner := inventory.OwnerOf(instance(), object.Definition{}, "v1")
	mark := func(labels map[string]string, refs ...metav1.OwnerReference) *unstructured.Unstructured {
		o := child()
		o.SetLabels(labels)
		o.SetOwnerReferences(refs)
		return o
	}
	graphs := child()
	graphs.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "kro-graphengine.tmpl.0123456789ab"}})
	cases := map[string]struct {
		object  *unstructured.Unstructured
		unowned bool
		whose   string
	}{
		"An unowned object": {mark(nil), true, "no known owner"},
		"An object of an instance": {mark(map[string]string{
			v1alpha1.OwnedLabel: "true", v1alpha1.InstanceKindLabel: "Vpc", v1alpha1.InstanceNamespaceLabel: "prod", v1alpha1.InstanceNameLabel: "other",
		}), false, "Vpc prod/other"},
		"An object that a Graph of kro's applies":       {graphs, false, "a Graph of kro (field manager kro-graphengine.tmpl.0123456789ab)"},
		"An object with a controller":                   {mark(nil, metav1.OwnerReference{Kind: "Deployment", Name: "web", Controller: &yes}), false, "Deployment web"},
		"An object with an owner that is no controller": {mark(nil, metav1.OwnerReference{Kind: "Deployment", Name: "web"}), true, "no known owner"},
		"An object of another tool":                     {mark(map[string]string{v1alpha1.ManagedByLabel: "Helm"}), true, "Helm"},
		"An object of another ApplySet":                 {mark(map[string]string{v1alpha1.ApplySetPartOfLabel: "applyset-x-v1"}), false, "applyset-x-v1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := owner.IsUnowned(tc.object); got != tc.unowned {
				t.Errorf("unowned: want %t, got %t", tc.unowned, got)
			}
			if got := inventory.DescribeOwner(tc.object); got != tc.whose {
				t.Errorf("whose: want %q, got %q", tc.whose, got)
			}
		})
	}
}
