package fakekube_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

const config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: prod, uid: u-1}, data: {x: y}}"

var key = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "a"}

// TestWritesCarryPreconditions makes each write of a client after another client has changed
// the object, and after another client has recreated it.
func TestWritesCarryPreconditions(t *testing.T) {
	change := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	writes := map[string]struct {
		write func(context.Context, *kube.Client, *unstructured.Unstructured) error
		// ifChanged and ifRecreated report whether the write is refused.
		ifChanged, ifRecreated bool
	}{
		"create": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.Create(ctx, o, "test")
			if kube.IsNameTaken(err) {
				return nil
			}
			return errors.New("it replaces the existing object")
		}, false, false},
		"update": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.Update(ctx, o, o.GetUID(), "test")
			return err
		}, false, true},
		"replace": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.Replace(ctx, o, "test")
			return err
		}, true, true},
		"patch": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.Patch(ctx, o, change, "test")
			return err
		}, true, true},
		"mark": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.PatchMetadata(ctx, o, change, "test")
			return err
		}, false, true},
		"status": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error {
			_, err := c.WriteStatus(ctx, o, map[string]any{"a": "b"}, "test")
			return err
		}, true, true},
		"delete": {func(ctx context.Context, c *kube.Client, o *unstructured.Unstructured) error { return c.Delete(ctx, o) }, false, false},
	}
	for name, tc := range writes {
		for _, recreated := range []bool{false, true} {
			c := fakekube.New(config)
			read := c.Object(key)
			c.Change(key, func(o *unstructured.Unstructured) {
				if recreated {
					o.SetUID("u-2")
				}
			})
			refused := tc.ifChanged
			if recreated {
				refused = tc.ifRecreated
			}
			if err := tc.write(t.Context(), c.Client(), read); kube.IsStale(err) != refused || err != nil && !refused {
				t.Errorf("%s, recreated: %t: %v", name, recreated, err)
			}
			if recreated && c.Object(key) == nil {
				t.Errorf("%s deletes the recreated object", name)
			}
		}
	}
}

func TestFinalizersKeepADeletedObject(t *testing.T) {
	c := fakekube.New(config)
	c.Change(key, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"x/y"}) })
	client := c.Client()
	if err := client.Delete(t.Context(), c.Object(key)); err != nil || c.Object(key).GetDeletionTimestamp() == nil {
		t.Fatalf("%v: %v", err, c.Object(key))
	}
	if _, err := client.RemoveFinalizers(t.Context(), c.Object(key), []string{"x/y"}, "test"); err != nil || c.Object(key) != nil {
		t.Errorf("without a finalizer: %v, %v", err, c.Object(key))
	}
	if diff := cmp.Diff([]string{"delete ConfigMap prod/a", "patch ConfigMap prod/a"}, c.Writes()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPagesListAllObjects(t *testing.T) {
	c := fakekube.New(config, "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: prod}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: dev}}")
	c.Page = 2
	var names []string
	for next := ""; ; {
		page, err := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).List(t.Context(), metav1.ListOptions{Continue: next})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Items {
			names = append(names, o.GetName())
		}
		if next = page.GetContinue(); next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequestsFailBeforeOrAfterTheyTakeEffect(t *testing.T) {
	errUnavailable := errors.New("unavailable")
	for _, after := range []bool{false, true} {
		c := fakekube.New(config)
		fail := func(string) error { return errUnavailable }
		if after {
			c.After = fail
		} else {
			c.Before = fail
		}
		err := c.Client().Delete(t.Context(), c.Object(key))
		if !errors.Is(err, errUnavailable) || (c.Object(key) == nil) != after {
			t.Errorf("after: %t: %v, exists: %t", after, err, c.Object(key) != nil)
		}
	}
}
