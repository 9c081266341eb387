package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/serving"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// maxNamedObjects limits the objects that a message names, and maxNamedBlockers those that it names with their
// blockers.
const (
	maxNamedObjects  = 5
	maxNamedBlockers = 3
)

func remainingText(n *serving.Remaining) string {
	if !n.Known() {
		return fmt.Sprintf("cannot determine whether objects of kind %s remain: %s", n.Kind, n.State.Message)
	}
	names := make([]string, 0, maxNamedObjects)
	for _, o := range n.Objects[:min(len(n.Objects), maxNamedObjects)] {
		names = append(names, serving.NameOf(o))
	}
	text := fmt.Sprintf("%d of kind %s remain: %s", len(n.Objects), n.Kind, strings.Join(names, ", "))
	if len(n.Objects) == 1 {
		text = fmt.Sprintf("1 of kind %s remains: %s", n.Kind, names[0])
	}
	if more := len(n.Objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	for _, blocked := range blockedTexts(n) {
		text += "; " + blocked
	}
	return text
}

func blockedTexts(n *serving.Remaining) []string {
	var out []string
	for _, o := range n.Objects {
		if why := blockedText(n, o); why != "" {
			out = append(out, serving.NameOf(o)+" "+why)
		}
		if len(out) == maxNamedBlockers {
			break
		}
	}
	return out
}

// blockedText is empty if no blocker is known.
func blockedText(n *serving.Remaining, o *unstructured.Unstructured) string {
	if refused := n.Refused[o.GetUID()]; refused != "" {
		return "cannot be deleted: " + refused
	}
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	if deletion := report.ReadDeletion(o); deletion != nil && len(deletion.Blockers) > 0 {
		first := deletion.Blockers[0]
		text := fmt.Sprintf("waits for %s (%s: %s)", first.Object, first.Reason, first.Message)
		if deepest := first.RootCause(); deepest.Object != first.Object {
			text = fmt.Sprintf("waits for %s (%s: %s)", deepest.Object, deepest.Reason, deepest.Message)
		}
		return text
	}
	foreign := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
		return f == v1.CompositeFinalizer || f == v1.ClaimFinalizer
	})
	if len(foreign) > 0 {
		return "has finalizer " + strings.Join(foreign, ", ")
	}
	return ""
}
