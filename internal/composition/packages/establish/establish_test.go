package establish_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/packages/establish"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

var (
	pkg = establish.Owner{APIVersion: "pkg.crossplane.io/v1", Kind: "Configuration", Name: "c", UID: "package"}
	rev = establish.Owner{APIVersion: "pkg.crossplane.io/v1", Kind: "ConfigurationRevision", Name: "c-2", UID: "revision"}
)

const composition = "{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: x}, spec: {mode: Pipeline}}"

func facts(t *testing.T, live *unstructured.Unstructured) establish.Facts {
	t.Helper()
	return establish.Facts{
		Revision: rev, Package: pkg, Labels: map[string]string{"team": "a"}, Objects: []*unstructured.Unstructured{parse(t, composition)},
		Live:        func(*unstructured.Unstructured) *unstructured.Unstructured { return live },
		Replaceable: func(r metav1.OwnerReference) bool { return r.UID == "older" },
	}
}

// installed is the object as the revision has created it, with more owners before it.
func installed(t *testing.T, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	o := establish.Compute(facts(t, nil)).Steps[0].Object
	o.SetUID("live")
	o.SetOwnerReferences(append(owners, o.GetOwnerReferences()...))
	return o
}

func owner(uid string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: uid, UID: types.UID(uid), Controller: &controller}
}

func TestWhatARevisionDoesWithAnObject(t *testing.T) {
	changed := installed(t)
	changed.SetAnnotations(nil)
	going := installed(t)
	going.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	mine := installed(t)
	mine.SetOwnerReferences(nil)
	older := installed(t)
	older.SetOwnerReferences([]metav1.OwnerReference{owner("older", true), older.GetOwnerReferences()[1]})
	foreign := installed(t)
	foreign.SetOwnerReferences([]metav1.OwnerReference{owner("foreign", true)})
	cases := map[string]struct {
		live     *unstructured.Unstructured
		want     []string
		owners   []string
		refusals []string
	}{
		"there is none: it is created":                     {want: []string{"Create"}, owners: []string{"revision controls", "package"}},
		"it is as it has to be: nothing is written":        {live: installed(t)},
		"other owners are left alone":                      {live: installed(t, owner("user", false))},
		"it was written by another version: it is applied": {live: changed, want: []string{"Update"}, owners: []string{"revision controls", "package"}},
		"nobody owns it: it is taken over":                 {live: mine, want: []string{"Update"}, owners: []string{"revision controls", "package"}},
		"a revision of the same source controls it: it is taken over, and that one stays an owner": {
			live: older, want: []string{"Update"}, owners: []string{"older", "package", "revision controls"},
		},
		"another controller owns it: it is refused, and the owner is named": {
			live: foreign, refusals: []string{"Composition x is already controlled by Owner foreign"},
		},
		"it is being deleted: nothing is written before it is gone": {live: going, refusals: []string{"Composition x is being deleted"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := establish.Compute(facts(t, tc.live))
			var got, owners []string
			for _, s := range p.Steps {
				got = append(got, string(s.Action))
				for _, r := range s.Object.GetOwnerReferences() {
					text := string(r.UID)
					if *r.Controller {
						text += " controls"
					}
					owners = append(owners, text)
				}
				if s.Object.GetLabels()["team"] != "a" {
					t.Error("the object lacks the labels of the package")
				}
			}
			for _, diff := range []string{cmp.Diff(tc.want, got), cmp.Diff(tc.owners, owners), cmp.Diff(tc.refusals, p.Refusals)} {
				if diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestOneRefusalStopsAll(t *testing.T) {
	f := facts(t, nil)
	f.Objects = append(f.Objects, parse(t, "{apiVersion: v1, kind: Composition, metadata: {name: other}}"))
	foreign := parse(t, "{apiVersion: v1, kind: Composition, metadata: {name: other}}")
	foreign.SetOwnerReferences([]metav1.OwnerReference{owner("foreign", true)})
	f.Live = func(o *unstructured.Unstructured) *unstructured.Unstructured {
		if o.GetName() == "other" {
			return foreign
		}
		return nil
	}
	if p := establish.Compute(f); len(p.Steps) != 0 || len(p.Refusals) != 1 {
		t.Errorf("got %+v", p)
	}
}

func TestAnInactiveRevisionControlsNothing(t *testing.T) {
	live := installed(t)
	owners, ok := establish.Released(live, rev.UID)
	if !ok || len(owners) != 2 || *owners[0].Controller {
		t.Errorf("got %v, %t", owners, ok)
	}
	live.SetOwnerReferences(owners)
	if _, again := establish.Released(live, rev.UID); again {
		t.Error("it is released twice")
	}
}
