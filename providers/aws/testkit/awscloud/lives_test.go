package awscloud

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TestLivesOfAllTypes creates, reads, updates, lists and deletes a resource of each type of the table.
func TestLivesOfAllTypes(t *testing.T) {
	cloud := start(t)
	for _, life := range Lives() {
		t.Run(life.Type, func(t *testing.T) { live(t, cloud, life) })
	}
}

func live(t *testing.T, cloud *Cloud, life Life) {
	api := newAPI(t, cloud)
	identifiers := map[string]string{}
	resolve := func(name, property string) string {
		if property == "" {
			return identifiers[name]
		}
		return text(api.read(life.Needs[name].Type, identifiers[name])[property])
	}
	for _, name := range life.Order() {
		need := life.Needs[name]
		identifiers[name] = api.create(need.Type, Resolve(need.Create, resolve))
		defer api.delete(need.Type, identifiers[name])
	}

	want := Resolve(life.Create, resolve)
	id := api.create(life.Type, want)
	deleted := false
	defer func() {
		if !deleted {
			api.delete(life.Type, id)
		}
	}()
	ty := mustType(t, cloud, life.Type)
	expect := func(what string, want map[string]any) {
		t.Helper()
		got := api.read(life.Type, id)
		shown := without(want, ty.WriteOnlyProperties)
		dropEmpty(shown, ty.WriteOnlyProperties)
		for name, v := range shown {
			if diff := cmp.Diff(comparable(t, v), subset(got[name], comparable(t, v))); diff != "" {
				t.Errorf("%s: %s differs (-want +got):\n%s", what, name, diff)
			}
		}
	}
	expect("after the creation", want)
	expectNative(t, cloud, ty, id, want)
	if got := api.listed(life.Type, Resolve(life.List, resolve)); ty.Handlers["list"].Permissions != nil && !got[id] {
		t.Errorf("%s is not in the list %v", id, got)
	}

	if len(life.Update) > 0 {
		change := Resolve(life.Update, resolve)
		api.update(life.Type, id, Patch(change))
		expect("after the update", change)
		expectNative(t, cloud, ty, id, change)
		if life.Drift.Call != "" {
			undoDrift(t, cloud, api, life, id, resolve)
			expectNative(t, cloud, ty, id, change)
		}
	}
	if len(life.Refused) > 0 {
		if code := api.refused(life.Type, id, Patch(life.Refused)); code != "NotUpdatableException" && code != "UnsupportedActionException" {
			t.Errorf("a replacement is refused with %q", code)
		}
	}
	api.delete(life.Type, id)
	deleted = true
	if api.exists(life.Type, id) {
		t.Error("it can be read after the deletion")
	}
	if found, err := cloud.Describe(t.Context(), life.Type, id); err != nil || found != nil {
		t.Errorf("after the deletion, a native API describes %v, %v", found, err)
	}
}

// expectNative compares what the type's native API says with what was set: each property is shown, unless it is
// write-only.
func expectNative(t *testing.T, cloud *Cloud, ty *resourcetype.Type, id string, want map[string]any) {
	t.Helper()
	found, err := cloud.Describe(t.Context(), ty.Name, id)
	if err != nil || found == nil {
		t.Fatalf("the native API describes %v, %v", found, err)
	}
	shown := without(want, ty.WriteOnlyProperties)
	dropEmpty(shown, ty.WriteOnlyProperties)
	for name, v := range shown {
		if diff := cmp.Diff(comparable(t, v), subset(found.Properties[name], comparable(t, v))); diff != "" {
			t.Errorf("natively, %s differs (-want +got):\n%s", name, diff)
		}
	}
}

// undoDrift changes a resource natively, which a read must show, and changes it back.
func undoDrift(t *testing.T, cloud *Cloud, api api, life Life, id string, resolve func(name, property string) string) {
	t.Helper()
	before := api.read(life.Type, id)
	if _, err := cloud.Call(t.Context(), life.Drift, id, resolve, ""); err != nil {
		t.Fatal(err)
	}
	back, after := map[string]any{}, api.read(life.Type, id)
	for name, v := range before {
		if !cmp.Equal(v, after[name]) {
			back[name] = v
		}
	}
	if len(back) == 0 {
		t.Fatalf("a read does not show what %s has changed", life.Drift.Call)
	}
	for name, v := range life.Update {
		if _, ok := before[name]; !ok {
			back[name] = v // It is write-only, and updates carry it.
		}
	}
	for _, path := range mustType(t, cloud, life.Type).ReadOnlyProperties {
		remove(back, path)
	}
	api.update(life.Type, id, Patch(back))
}

func mustType(t *testing.T, cloud *Cloud, name string) *resourcetype.Type {
	t.Helper()
	ty, err := cloud.typeOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return ty
}

// comparable returns a value as it is after a way through JSON.
func comparable(t *testing.T, v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// subset returns what a read has of the properties that are wanted, since it also has defaults.
func subset(got, want any) any {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return got
		}
		out := map[string]any{}
		for name, v := range want {
			if field, ok := object[name]; ok {
				out[name] = subset(field, v)
			}
		}
		return out
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return got
		}
		out := make([]any, len(want))
		for i := range want {
			out[i] = subset(list[i], want[i])
		}
		return out
	default:
		return got
	}
}
