package postgresql

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// saysNowhere checks that passwords are in no Binding, no managed resource, no event,
// and not in the server's log, which has every statement.
func (c testDatabase) saysNowhere(t *testing.T, name string, passwords ...string) {
	t.Helper()
	places := map[string]string{}
	list := func(place string, kind schema.GroupVersionKind, namespace string) {
		all := c.List(t, kind, namespace, "")
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		places[place] = string(raw)
	}
	list("Bindings", binding, "")
	list("Roles", role, c.NS)
	list("Events", schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, c.NS)
	log, err := c.pg.Log()
	if err != nil {
		t.Fatal(err)
	}
	places["the server's log"] = string(log)
	if !strings.Contains(string(log), `ALTER ROLE "`+name+`" PASSWORD 'SCRAM-SHA-256$`) {
		t.Errorf("the log does not have the statement that would give it away")
	}
	for place, text := range places {
		for _, password := range passwords {
			if strings.Contains(text, password) {
				t.Errorf("a password is in %s", place)
			}
		}
	}
}
