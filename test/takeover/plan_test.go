package takeover

import (
	"testing"
	"time"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

func TestPlan(t *testing.T) {
	config := testkit.Another(t)
	w := testkit.NewWorld(t, config)
	live.Load(t, w, live.Crossplane, live.KRO)
	began := time.Now()
	r, err := server.Rehearse(t.Context(), server.ManagerOptions{Options: manager.Options{Config: config, Log: logr.Discard(), Version: "test"}, Workers: 4, Dialects: server.Dialects, Usages: true}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(time.Since(began), r.Unsettled, r.Refused)
	for _, c := range r.Changes {
		o := c.After
		if o == nil { o = c.Before }
		fmt.Println(c.Resource.Resource, o.GetNamespace(), o.GetName(), "created", c.Before == nil, "gone", c.After == nil, "deletion", c.Deletion)
		if c.After != nil {
			for _, m := range c.After.GetManagedFields() { fmt.Print(" ", m.Manager, " ", m.Operation, " ", m.Subresource, ";") }
			fmt.Println()
		}
	}
	for k, f := range r.Failed { fmt.Println("failed", k, f) }
	for _, w := range r.Warnings { fmt.Println("warning", w) }
	for _, s := range r.Served { fmt.Println("served", s.GetKind(), s.GetNamespace(), s.GetName(), testkit.Condition(s, "Synced"), testkit.Condition(s, "Ready"), testkit.Message(s, "Ready")) }
}
