package awscloud

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	ty, err := cloud.typeOf(life.Type)
	if err != nil {
		t.Fatal(err)
	}
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
	if got := api.listed(life.Type, Resolve(life.List, resolve)); ty.Handlers["list"].Permissions != nil && !got[id] {
		t.Errorf("%s is not in the list %v", id, got)
	}

	if len(life.Update) > 0 {
		change := Resolve(life.Update, resolve)
		api.update(life.Type, id, Patch(change))
		expect("after the update", change)
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
