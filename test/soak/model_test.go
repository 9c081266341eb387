package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// nested is a model of one graph of all shapes, and an instance of it.
func nested(flag bool) (*model, *instance) {
	g := &graph{kind: "Apple", nodes: []*node{
		{id: "n0", kind: partKind, value: "$word"},
		{id: "n1", kind: "ConfigMap", value: "@n0"},
		{id: "n2", kind: "Secret", value: "@n1", many: true},
		{id: "n3", kind: widgetKind, value: "$count", conditional: true},
	}}
	m := &model{left: map[key]left{}, used: map[key]bool{}, kinds: []*served{{kind: partKind, definition: &part{prefix: "p"}}, {kind: "Apple", definition: g}}}
	i := &instance{key: key{"Apple", "ns", "a"}, word: "w", count: 3, flag: flag, items: []string{"x", "y"}}
	m.instances = []*instance{i}
	return m, i
}

func TestTheModelExpectsAllObjectsBelowAnInstance(t *testing.T) {
	m, i := nested(true)
	owner, inner := i.key, key{partKind, "ns", "a-apple-n0"}
	want := map[key]wanted{
		i.key:                                  {value: "w", status: map[string]string{"ofn0": "p-w", "ofn1": "p-w"}},
		inner:                                  {value: "w", owner: owner, status: map[string]string{"value": "p-w"}},
		{"ConfigMap", "ns", "a-apple-n0-part"}: {value: "p-w", owner: inner},
		{"ConfigMap", "ns", "a-apple-n1"}:      {value: "p-w", owner: owner},
		{"Secret", "ns", "a-apple-n2-x"}:       {value: "p-w-x", owner: owner},
		{"Secret", "ns", "a-apple-n2-y"}:       {value: "p-w-y", owner: owner},
		{widgetKind, "ns", "a-apple-n3"}:       {value: "3", owner: owner},
	}
	if diff := cmp.Diff(want, m.expected(), cmp.AllowUnexported(key{}, wanted{})); diff != "" {
		t.Errorf("with the flag (-want +got):\n%s", diff)
	}
	delete(want, key{widgetKind, "ns", "a-apple-n3"})
	m, _ = nested(false)
	if diff := cmp.Diff(want, m.expected(), cmp.AllowUnexported(key{}, wanted{})); diff != "" {
		t.Errorf("without the flag (-want +got):\n%s", diff)
	}
}

func TestOnlyObjectsThatWereAtRestAreRequiredToStay(t *testing.T) {
	for name, tc := range map[string]struct{ changed, required bool }{
		"an instance since the last comparison": {false, true},
		"an instance that has changed":          {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, i := nested(false)
			i.changed = tc.changed
			m.remove(i, true, func(k key) bool { return k.kind != "Secret" })
			want := map[key]left{
				{partKind, "ns", "a-apple-n0"}:    {required: tc.required},
				{"ConfigMap", "ns", "a-apple-n1"}: {required: tc.required},
				{"Secret", "ns", "a-apple-n2-x"}:  {},
				{"Secret", "ns", "a-apple-n2-y"}:  {},
			}
			if diff := cmp.Diff(want, m.left, cmp.AllowUnexported(key{}, left{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(m.instances) > 0 || !m.used[i.key] {
				t.Error("the instance is still there, or its name is free")
			}
		})
	}
}

// TestTheSameSeedGivesTheSameSteps draws definitions and changes twice.
func TestTheSameSeedGivesTheSameSteps(t *testing.T) {
	draw := func() (out []string) {
		r := rand.New(rand.NewPCG(5, 0))
		m := newModel(r)
		for range 300 {
			k := pick(r, m.kinds)
			out = append(out, k.kind, k.change(r))
			if i := m.newInstance(r); i != nil {
				m.instances = append(m.instances, i)
				out = append(out, i.describe())
			}
			for _, o := range slices.Concat(k.objects(), k.faulty(r)) {
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(text))
			}
		}
		return out
	}
	if diff := cmp.Diff(draw(), draw()); diff != "" {
		t.Error(diff)
	}
}

func TestDifferencesFromTheModelAreFound(t *testing.T) {
	m, i := nested(true)
	child := key{"ConfigMap", "ns", "a-apple-n1"}
	w := m.expected()[child]
	parent := newObject(i.key, map[string]any{})
	parent.SetUID("one")
	all := map[key][]*unstructured.Unstructured{i.key: {parent}}
	good := newObject(child, valuePatch("ConfigMap", "p-w"))
	good.SetLabels(map[string]string{"kro.run/instance-id": "one"})
	if problem := w.check(good, all); problem != "" {
		t.Errorf("the expected object: %s", problem)
	}
	edited, stranger := good.DeepCopy(), good.DeepCopy()
	_ = unstructured.SetNestedField(edited.Object, "edited", "data", "value") // data is an object
	stranger.SetLabels(map[string]string{"kro.run/instance-id": "two"})
	for want, o := range map[string]*unstructured.Unstructured{"has the value": edited, "belongs to another object": stranger} {
		if problem := w.check(o, all); !strings.Contains(problem, want) {
			t.Errorf("%q, not %q", problem, want)
		}
	}
	if problem := m.expected()[i.key].check(parent, all); !strings.Contains(problem, "has the value") {
		t.Errorf("an instance without a spec: %q", problem)
	}
}

func TestLeaksAreFound(t *testing.T) {
	before := usage{goroutines: map[string]int{"a": 10}, watches: map[string]int{"ConfigMap": 1}, objects: map[string]int{"ConfigMap a": 1, "ConfigMap b": 1}, heap: 8 << 20}
	if err := leaks(rows("running", before, before)); err != nil {
		t.Error("no difference:", err)
	}
	for want, change := range map[string]func(*usage){
		"30 c":         func(u *usage) { u.goroutines = map[string]int{"a": 10, "c": 30} },
		"1 Secret":     func(u *usage) { u.watches = map[string]int{"ConfigMap": 1, "Secret": 1} },
		"ConfigMap c":  func(u *usage) { u.objects = map[string]int{"ConfigMap a": 1, "ConfigMap c": 1} },
		"heap":         func(u *usage) { u.heap = 20 << 20 },
		"open files":   func(u *usage) { u.files = 50 },
		"1 configmaps": func(u *usage) { u.streams = map[string]int{"configmaps": 1} },
	} {
		after := before
		change(&after)
		if err := leaks(rows("running", before, after)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
