package override_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/override"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TestOverridesAreAboutWhatExists compares each override with the schema that AWS publishes.
func TestOverridesAreAboutWhatExists(t *testing.T) {
	for name, o := range override.All() {
		raw, err := catalog.Raw(name)
		if err != nil {
			t.Error(err)
			continue
		}
		published, err := resourcetype.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []struct {
			paths []string
			says  []resourcetype.Path
		}{
			{o.IgnoreDrift, published.WriteOnlyProperties}, {o.WriteOnly, published.WriteOnlyProperties},
			{o.CreateOnly, published.CreateOnlyProperties}, {o.ReadOnly, published.ReadOnlyProperties},
		} {
			for _, path := range list.paths {
				if len(published.At(strings.Split(path, "."))) == 0 {
					t.Errorf("%s has no property %s", name, path)
				}
				if resourcetype.Has(list.says, strings.Split(path, ".")) {
					t.Errorf("%s.%s: the schema says so by now, and the override can be removed", name, path)
				}
			}
		}
	}
}

func TestOverridesCorrectSchemas(t *testing.T) {
	o, err := override.Parse([]byte(`
AWS::Test::Thing:
  ignoreDrift: [Engine]
  writeOnly: [Given]
  createOnly: [Zone, Size]
  readOnly: [Secret, Fixed]
`))
	if err != nil {
		t.Fatal(err)
	}
	thing, err := resourcetype.Parse([]byte(`{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/Id"],
		"readOnlyProperties": ["/properties/Id", "/properties/Given", "/properties/Zone"], "writeOnlyProperties": ["/properties/Secret"],
		"createOnlyProperties": ["/properties/Fixed"], "conditionalCreateOnlyProperties": ["/properties/Size"], "properties": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Apply(thing)
	for name, got := range map[string]struct {
		paths []resourcetype.Path
		want  []string
	}{
		"read-only":               {thing.ReadOnlyProperties, []string{"Id", "Secret", "Fixed"}},
		"write-only":              {thing.WriteOnlyProperties, []string{"Given"}},
		"create-only":             {thing.CreateOnlyProperties, []string{"Zone", "Size"}},
		"conditional create-only": {thing.ConditionalCreateOnlyProperties, nil},
		"ignored":                 {thing.IgnoredProperties, []string{"Engine"}},
	} {
		var names []string
		for _, path := range got.paths {
			names = append(names, path.String())
		}
		if !slices.Equal(names, got.want) {
			t.Errorf("%s: got %q, want %q", name, names, got.want)
		}
	}
	other := &resourcetype.Type{Name: "AWS::Test::Other"}
	if o.Apply(other); fmt.Sprint(other) != fmt.Sprint(&resourcetype.Type{Name: "AWS::Test::Other"}) {
		t.Error("the override of one type changes another")
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	if _, err := override.Parse([]byte("AWS::Test::Thing: {ignore: [A]}")); err == nil {
		t.Error("a field that does not exist is accepted")
	}
}

func TestTheCatalogHasTheOverrides(t *testing.T) {
	provider, err := catalog.Get("AWS::DMS::DataProvider")
	if err != nil || !resourcetype.Has(provider.IgnoredProperties, resourcetype.Path{"Engine"}) {
		t.Errorf("got %v, %v", provider.IgnoredProperties, err)
	}
}
