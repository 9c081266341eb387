package conversion_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/graph/conversion"
)

// three is a converter of a kind with two spokes.
func three(t testing.TB) *conversion.Converter {
	t.Helper()
	pairs := map[string]*conversion.Pair{}
	for _, text := range []string{
		`{hub: {name: v1, spec: {a: string, b: string, c: string}}, version: {name: v1alpha1, spec: {a: string, x: string}}, conversion: {to: {b: "${self.spec.x}"}, from: {x: "${self.spec.b}"}}}`,
		`{hub: {name: v1, spec: {a: string, b: string, c: string}}, version: {name: v1beta1, spec: {a: string, y: string}}}`,
	} {
		var k kind
		parse(t, text, &k)
		pair, problems := k.compile(t)
		if problems != nil {
			t.Fatal(problems.Err())
		}
		pairs[k.Version.Name] = pair
	}
	return conversion.New(schema.GroupKind{Group: "kro.run", Kind: "App"}, "v1", pairs)
}

func of(version string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "kro.run/" + version, "kind": "App", "metadata": map[string]any{"name": "a"}, "spec": spec}
}

func TestConversionBetweenSpokesLosesNothing(t *testing.T) {
	c := three(t)
	along := func(o map[string]any, version string) map[string]any {
		t.Helper()
		out, err := c.Convert(o, version)
		if err != nil {
			t.Fatal(err)
		}
		return whole(t, out)
	}
	alpha := of("v1alpha1", map[string]any{"a": "1", "x": "2"})
	beta := along(alpha, "v1beta1")
	beta["spec"].(map[string]any)["y"] = "3"
	hub := along(beta, "v1")
	if diff := cmp.Diff(map[string]any{"a": "1", "b": "2"}, hub["spec"]); diff != "" {
		t.Errorf("in the hub (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(alpha["spec"], along(beta, "v1alpha1")["spec"]); diff != "" {
		t.Errorf("by way of the other (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(beta["spec"], along(along(beta, "v1alpha1"), "v1beta1")["spec"]); diff != "" {
		t.Errorf("and back (-want +got):\n%s", diff)
	}
}

func TestKeptValuesAreBounded(t *testing.T) {
	long := strings.Repeat("x", conversion.MaxKept)
	_, err := three(t).Convert(of("v1", map[string]any{"c": long}), "v1beta1")
	if err == nil || !strings.Contains(err.Error(), "MaxKept") || len(err.Error()) > 1000 {
		t.Errorf("it says %v", err)
	}
}

func TestKeptItemsOfALongListAreRestoredQuickly(t *testing.T) {
	var k kind
	parse(t, moving, &k)
	c := k.converter(t)
	var containers, rules []any
	for i := range 20_000 {
		name := string(rune('a'+i%26)) + strings.Repeat("n", 1+i/26)[:min(1+i/26, 8)] + oneLine(t, i)
		containers = append(containers, map[string]any{"name": name})
		rules = append(rules, map[string]any{"from": "same"})
	}
	for i := range 300 {
		containers[i].(map[string]any)["probe"], rules[i].(map[string]any)["comment"] = "p", "c"
	}
	began := time.Now()
	o, err := c.Convert(of("v1", map[string]any{"containers": containers, "rules": rules}), "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	// Everything has moved by one place.
	spec := whole(t, o)
	fields := spec["spec"].(map[string]any)
	fields["containers"] = append([]any{map[string]any{"name": "first"}}, fields["containers"].([]any)...)
	if _, err := c.Convert(spec, "v1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// FuzzConvert shows that whatever an object holds, it is converted or told why not.
func FuzzConvert(f *testing.F) {
	f.Add(`{"replicas": 3, "network": {"host": "h"}, "containers": [{"name": "a"}, null], "rules": {}}`, `[{"at":["network","host"],"was":1}]`)
	f.Add(`{"containers": [{"name": 1}, "a"], "labels": [], "raw": {"a": null}}`, `[{"at":["containers",{"name":"a"},"probe"],"was":"x"},{"at":["rules",7,"a"]},{"at":[]},{"at":[null]}]`)
	var k kind
	parse(f, moving, &k)
	c := k.converter(f)
	f.Fuzz(func(t *testing.T, spec, kept string) {
		var fields map[string]any
		if utiljson.Unmarshal([]byte(spec), &fields) != nil {
			return
		}
		for _, from := range []string{"v1", "v1alpha1"} {
			o := of(from, fields)
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"espalier.dev/kept-v1": kept, "espalier.dev/kept-v1alpha1": kept}
			for _, to := range []string{"v1", "v1alpha1"} {
				if out, err := c.Convert(o, to); err == nil {
					whole(t, out)
				}
			}
		}
	})
}

func TestAFailureIsKnownByTheAnswerOfTheAPIServer(t *testing.T) {
	failed := &conversion.Error{Object: "App team/a", From: "v1alpha1", To: "v1", Reason: "no such key"}
	for text, want := range map[string]bool{
		"failed to read one or more apps.kro.run from the storage: conversion webhook for kro.run/v1alpha1, Kind=App failed: " + failed.Error(): true,
		"conversion webhook for kro.run/v1alpha1, Kind=App failed: Post \"https://a\": connection refused":                                      false,
		"storage is (re)initializing": false,
	} {
		if got := conversion.IsFailure(errors.New(text)); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
	if conversion.IsFailure(nil) {
		t.Error("no error is a failure")
	}
}
