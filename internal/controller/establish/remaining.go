package establish

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/tally"
	"github.com/espalier-dev/espalier/internal/watch"
)

// remaining is what is known of the objects that a deleted definition waits for.
type remaining struct {
	// kind is theirs.
	kind    string
	objects []*unstructured.Unstructured
	state   watch.State
	// refused says of each that could not be deleted why.
	refused map[types.UID]string
}

// hold says whether there are objects, or may be.
func (n remaining) hold() bool { return len(n.objects) > 0 || n.state.Phase != watch.Synced }

// tally is what of it is told in figures.
func (n remaining) tally(now time.Time) tally.Count {
	out := tally.Count{N: len(n.objects), At: now}
	if n.state.Phase != watch.Synced {
		out.Unknown = string(n.state.Phase) + ": " + n.state.Message
	}
	return out
}

// mostNamed bounds the objects that a message names, and mostTold those of which it says
// what keeps them.
const (
	mostNamed = 5
	mostTold  = 3
)

// String says it to people: how many there are, the first of them, and what keeps them.
func (n remaining) String() string {
	if n.state.Phase != watch.Synced {
		return fmt.Sprintf("it can't be told whether objects of kind %s remain: %s", n.kind, n.state.Message)
	}
	names := make([]string, 0, mostNamed)
	for _, o := range n.objects[:min(len(n.objects), mostNamed)] {
		names = append(names, name(o))
	}
	text := fmt.Sprintf("%d of kind %s remain: %s", len(n.objects), n.kind, strings.Join(names, ", "))
	if len(n.objects) == 1 {
		text = fmt.Sprintf("1 of kind %s remains: %s", n.kind, names[0])
	}
	if more := len(n.objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	for _, held := range n.held() {
		text += "; " + held
	}
	return text
}

// held says of the first objects that are held up what by.
func (n remaining) held() []string {
	var out []string
	for _, o := range n.objects {
		if why := n.why(o); why != "" {
			out = append(out, name(o)+" "+why)
		}
		if len(out) == mostTold {
			break
		}
	}
	return out
}

// why says what keeps an object; "" if nothing is known to.
func (n remaining) why(o *unstructured.Unstructured) string {
	if refused := n.refused[o.GetUID()]; refused != "" {
		return "can't be deleted: " + refused
	}
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	if deletion := report.ReadDeletion(o); deletion != nil && len(deletion.Blockers) > 0 {
		first := deletion.Blockers[0]
		text := fmt.Sprintf("waits for %s (%s: %s)", first.Object, first.Reason, first.Message)
		if deepest := first.Deepest(); deepest.Object != first.Object {
			text = fmt.Sprintf("waits for %s (%s: %s)", deepest.Object, deepest.Reason, deepest.Message)
		}
		return text
	}
	foreign := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
		return f == v1.CompositeFinalizer || f == v1.ClaimFinalizer
	})
	if len(foreign) > 0 {
		return "is kept by finalizer " + strings.Join(foreign, ", ")
	}
	return ""
}

// name names an object among those of its kind.
func name(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(object.KeyOf(o).String(), o.GetKind()+" ")
}
