package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// printHolds prints a note for each Hold: while there is one, the controllers are suspended and
// deletions do not go on. It prints nothing if Holds cannot be listed.
func (i instance) printHolds(ctx context.Context, w io.Writer) {
	holds, _ := i.List(ctx, reader.Query{Resource: espalier.GroupVersion.WithResource("holds")}) // none if the user is not allowed to list them
	for _, h := range holds {
		reason, _, _ := unstructured.NestedString(h.Object, "spec", "reason")
		fmt.Fprint(prose(w), holdNote(h.GetName(), reason))
	}
}

// printUnreadable prints a note of what a tree lacks because the user may not list it.
func printUnreadable(w io.Writer, state observe.ClusterState) {
	if len(state.Unreadable) > 0 {
		fmt.Fprintf(prose(w), "note: left out, because you are not allowed to list them: %s\n", strings.Join(state.Unreadable, ", "))
	}
}

// holdNote says that a Hold suspends the controllers.
func holdNote(name, reason string) string {
	return fmt.Sprintf("note: the controllers are suspended by Hold %s: %s\n", name, cmp.Or(observe.Printable(reason), "no reason given"))
}
