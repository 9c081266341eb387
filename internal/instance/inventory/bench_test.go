package inventory_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

func benchmarked() (inventory.Owner, *unstructured.Unstructured) {
	instance := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Web", "metadata": map[string]any{"namespace": "prod", "name": "shop", "uid": "8a7b6c5d-0000-4000-8000-000000000000"},
	}}
	child := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "prod", "name": "shop-settings", "labels": map[string]any{"app": "shop"}},
		"data": map[string]any{"text": "a", "url": "https://shop.example.org"},
	}}
	owner := inventory.OwnerOf(instance, object.Definition{Name: "webs"}, "v1").Recognizing(signing.Keys(), instance, time.Time{})
	owner.CRD = inventory.CRD{Name: "webs.example.org", UID: "c"}
	return owner, child
}

// BenchmarkMark marks a child, as each decision about it does.
func BenchmarkMark(b *testing.B) {
	owner, child := benchmarked()
	b.ReportAllocs()
	for b.Loop() {
		owner.Mark(child.DeepCopy(), inventory.Place{Node: "settings", Layer: 1, DependsOn: []string{"database"}})
	}
}

// BenchmarkOwns recognizes a child by its signature, as each reconcile does.
func BenchmarkOwns(b *testing.B) {
	owner, child := benchmarked()
	owner.Mark(child, inventory.Place{Node: "settings"})
	b.ReportAllocs()
	for b.Loop() {
		if !owner.Owns(child) {
			b.Fatal("it is not recognized")
		}
	}
}
