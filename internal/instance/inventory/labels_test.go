package inventory_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// kroLabel is how kro writes a text of more than 63 characters to a label.
func kroLabel(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "h-" + hex.EncodeToString(sum[:])[:40]
}

func TestLongTextsAreHashedAsInKro(t *testing.T) {
	const fits = "a23456789-b23456789-c23456789-d23456789-e23456789-f23456789-abc"
	for text, want := range map[string]string{
		"":          "",
		"main":      "main",
		"a b":       "a-b",
		fits:        fits,
		fits + "d":  kroLabel(fits + "d"),
		fits + "/d": kroLabel(fits + "/d"),
	} {
		if got := object.HashedLabelValue(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}

func TestALongNodeIDIsReadFromItsAnnotation(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1").Recognizing(signing.Keys(), instance(), time.Time{})
	id := strings.Repeat("aLongID", 30)
	o := child()
	owner.Mark(o, inventory.Place{Node: id})
	if got := o.GetLabels()[v1alpha1.NodeIDLabel]; got != kroLabel(id) {
		t.Errorf("the label is %q", got)
	}
	if got := inventory.Node(o); got != id || !owner.OwnsAs(o, id) {
		t.Errorf("it is read as %q", got)
	}
	annotations := maps.Clone(o.GetAnnotations())
	annotations[v1alpha1.NodePathAnnotation] = "another"
	o.SetAnnotations(annotations)
	if inventory.Node(o) == "another" || owner.Owns(o) {
		t.Error("an annotation that is not the full form of the label is read as the node")
	}
	metadata, _ := owner.LabelPatch(o, id)["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	restored, _ := metadata["annotations"].(map[string]any)
	if labels[v1alpha1.NodeIDLabel] != kroLabel(id) || restored[v1alpha1.NodePathAnnotation] != id {
		t.Errorf("it is labelled again with %v", metadata)
	}
}

func TestTheNodePathIsOnEveryChildAndNoReasonToWrite(t *testing.T) {
	owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
	o := child()
	owner.Mark(o, inventory.Place{Node: "settings"})
	if got := o.GetAnnotations()[v1alpha1.NodePathAnnotation]; got != "settings" {
		t.Errorf("the path is %q", got)
	}
	digest, annotations := inventory.AppliedDigest(o), o.GetAnnotations()
	annotations[v1alpha1.NodePathAnnotation] = "other"
	o.SetAnnotations(annotations)
	owner.Mark(o, inventory.Place{Node: "settings"})
	if got := inventory.AppliedDigest(o); got != digest {
		t.Error("a child that earlier versions have applied without the annotation would be written")
	}
}

func TestAChildWithFormerLabelsStaysAChild(t *testing.T) {
	parent := instance()
	parent.SetName(strings.Repeat("a-long-part.", 8) + "end")
	owner := inventory.OwnerOf(parent, object.Definition{Name: "vpc"}, "v1").Recognizing(signing.Keys(), parent, time.Time{})
	o := child()
	owner.Mark(o, inventory.Place{Node: "a"})
	digest := inventory.AppliedDigest(o)

	labels, annotations := o.GetLabels(), o.GetAnnotations()
	labels[v1alpha1.InstanceNameLabel] = object.LabelValue(parent.GetName())
	delete(annotations, v1alpha1.InstanceNameAnnotation)
	delete(annotations, v1alpha1.NodePathAnnotation)
	annotations[v1alpha1.FormerNameAnnotation] = parent.GetName()
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	inventory.Sign(o, "")
	if key, _, ok := inventory.InstanceOf(o); !ok || key != owner.Key() || !owner.Owns(o) || inventory.Node(o) != "a" {
		t.Errorf("it is read as a child of %v", key)
	}
	if inventory.DescribeOwner(o) != (object.Key{Kind: owner.Kind.Kind, Namespace: owner.Namespace, Name: owner.Name}).String() {
		t.Errorf("its owner is described as %s", inventory.DescribeOwner(o))
	}
	if inventory.AppliedDigest(o) == digest {
		t.Error("it isn't applied again with the labels of today")
	}
	if _, marks := inventory.Marks(o); !strings.Contains(strings.Join(marks, " "), v1alpha1.FormerNameAnnotation) {
		t.Errorf("an orphan keeps one of %v", annotations)
	}
}
