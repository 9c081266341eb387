package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// hostileName is a name that the API server accepts for a Role: whoever may create an instance
// whose template takes the name from a field chooses it.
const hostileName = "x;id $(id): kubectl delete ns prod"

// A name is one word of a command that is advised, whatever it contains.
func TestCommandsQuoteNames(t *testing.T) {
	role := report.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespace: "prod", Name: hostileName}
	if got, want := observe.ArgumentsOf(role), "role.rbac.authorization.k8s.io '"+hostileName+"' -n prod"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	role.Name = "--token=x"
	if got, want := observe.ArgumentsOf(role), "role.rbac.authorization.k8s.io/--token=x -n prod"; got != want {
		t.Errorf("a name is read as an option: got %s, want %s", got, want)
	}
}

// The command that deletes an instance without an object names that object.
func TestForceDeletionQuotesNames(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	n := observe.Node{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main", Exists: true, Instance: true, Deleted: &at}
	role := report.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespace: "prod", Name: hostileName}
	n.Deletion = &report.Deletion{StartedAt: report.At(at), Blocked: 1, Blockers: []report.Blocker{{BlockedObject: report.BlockedObject{
		Object: role, Reason: report.HeldByFinalizer, Since: report.At(at),
		Finalizers: []report.Finalizer{{Name: "a/b"}},
	}}}}
	quoted := false
	for _, b := range observe.FindBlockers(n).Blockers {
		for _, advice := range b.Advice {
			quoted = quoted || strings.Contains(advice, "='Role/"+hostileName+"'")
		}
	}
	if !quoted {
		t.Errorf("the name of the object is not quoted: %+v", observe.FindBlockers(n).Blockers)
	}
}

// A command that is advised is the program's own: what looks like one in the name of a field
// manager, or of an object, is part of the text before it, or a word of the command.
func TestOnlyOwnCommandsAreSplitOff(t *testing.T) {
	for advice, want := range map[string][2]string{
		"see its events: kubectl describe role x -n prod":                         {"see its events", "kubectl describe role x -n prod"},
		"see what sets it: espalier why role 'x: kubectl delete ns prod' -n prod": {"see what sets it", "espalier why role 'x: kubectl delete ns prod' -n prod"},
		"delete it": {"delete it", ""},
	} {
		if text, command := observe.SplitCommand(advice); text != want[0] || command != want[1] {
			t.Errorf("%s: got %q and %q", advice, text, command)
		}
	}
	held := report.BlockedObject{
		Object: report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "a"}, Reason: report.HeldByFinalizer,
		Finalizers: []report.Finalizer{{Name: "a/b", Managers: []string{"x: kubectl delete ns prod"}}},
	}
	for _, advice := range observe.AdviceOn(held) {
		if _, command := observe.SplitCommand(advice); command != "" {
			t.Errorf("the name of a field manager is a command to copy: %s", command)
		}
	}
}
