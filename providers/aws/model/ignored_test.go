package model

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TestIgnoredProperties is about a property whose reads do not return what was set.
func TestIgnoredProperties(t *testing.T) {
	typ, err := resourcetype.Parse([]byte(`{"typeName": "AWS::Test::Thing", "primaryIdentifier": ["/properties/Id"],
		"readOnlyProperties": ["/properties/Id"], "handlers": {"create": {}, "read": {}, "update": {}, "delete": {}},
		"properties": {"Id": {"type": "string"}, "Engine": {"type": "string"}, "Name": {"type": "string"},
			"Tags": {"type": "array", "items": {"type": "object", "properties": {"Key": {"type": "string"}, "Value": {"type": "string"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	typ.IgnoredProperties = []resourcetype.Path{{"Engine"}}
	wanted := map[string]any{"Engine": "a_b", "Name": "x"}
	read := func(name string) map[string]any {
		return map[string]any{"Id": "1", "Engine": "a-b", "Name": name, "Tags": []any{map[string]any{"Key": TagSent, "Value": Sent(typ, wanted)}}}
	}
	if c := Compare(typ, wanted, read("x")); len(c.Differences) > 0 || len(Patch(typ, c, wanted, read("x"))) > 0 {
		t.Errorf("it is compared: %s", c)
	}
	if got := Chosen(typ, map[string]any{}, read("x")); got["Engine"] != nil {
		t.Errorf("it is stored: %v", got)
	}
	patchOf := func(wanted, read map[string]any) string {
		var paths []string
		for _, o := range Patch(typ, Compare(typ, wanted, read), wanted, read) {
			paths = append(paths, o.Path)
		}
		return strings.Join(paths, " ")
	}
	if got := patchOf(wanted, read("y")); got != "/Name /Engine" {
		t.Errorf("beside another change: got %q", got)
	}
	if got := patchOf(map[string]any{"Engine": "b_c", "Name": "x"}, read("x")); got != "/Engine /Tags" {
		t.Errorf("a change of the desired state: got %q", got)
	}
}
