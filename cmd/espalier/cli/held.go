package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe"
)

// printHolds prints a note for each Hold: while there is one, the controllers are suspended and
// deletions do not go on. It prints nothing if Holds cannot be listed.
func (i instance) printHolds(ctx context.Context, w io.Writer) {
	list, err := i.Client.Resource(espalier.GroupVersion.WithResource("holds")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, h := range list.Items {
		reason, _, _ := unstructured.NestedString(h.Object, "spec", "reason")
		fmt.Fprint(prose(w), holdNote(h.GetName(), reason))
	}
}

// printUnreadable prints a note of what a tree lacks because the user may not list it.
func printUnreadable(w io.Writer, state observe.ClusterState) {
	if len(state.Unreadable) > 0 {
		fmt.Fprintf(prose(w), "note: left out, since you may not list them: %s\n", strings.Join(state.Unreadable, ", "))
	}
}

// holdNote says that a Hold suspends the controllers.
func holdNote(name, reason string) string {
	return fmt.Sprintf("note: the controllers are suspended by Hold %s: %s\n", name, cmp.Or(observe.Printable(reason), "no reason given"))
}
