package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
)

// tellHolds says that the controllers rest, if they do: what is shown won't change
// then, and neither will a deletion go on. It is a remark; where it can't be found out,
// nothing is said.
func (i instance) tellHolds(ctx context.Context, w io.Writer) {
	list, err := i.Client.Resource(espalier.GroupVersion.WithResource("holds")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, h := range list.Items {
		reason, _, _ := unstructured.NestedString(h.Object, "spec", "reason")
		fmt.Fprintf(w, "note: the controllers rest, because of Hold %s: %s\n", h.GetName(), cmp.Or(reason, "it doesn't say why"))
	}
}
