package identity

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

type served struct{}

func (served) Resolve(context.Context, schema.GroupVersionKind) (kube.Resource, error) {
	return kube.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}, nil
}

// TestOnlyOwnFinalizersAreRemoved takes one off an object as it was read, while
// others write: the garbage collector does the same with its own at that moment.
func TestOnlyOwnFinalizersAreRemoved(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	for name, c := range map[string]struct {
		before, meanwhile, after []string
		gone                     bool
	}{
		"when nobody writes":                      {[]string{"a.x/y", "ours.x/y"}, nil, []string{"a.x/y"}, false},
		"when one behind it is taken off":         {[]string{"ours.x/y", "b.x/y"}, []string{"ours.x/y"}, nil, false},
		"when one is added":                       {[]string{"ours.x/y"}, []string{"ours.x/y", "b.x/y"}, []string{"b.x/y"}, false},
		"not when one before it is taken off":     {[]string{"a.x/y", "ours.x/y", "b.x/y"}, []string{"ours.x/y", "b.x/y"}, []string{"ours.x/y", "b.x/y"}, true},
		"not when somebody else has taken it off": {[]string{"a.x/y", "ours.x/y"}, []string{"a.x/y"}, []string{"a.x/y"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := testkit.Namespace(t, config)
			client := kube.NewClient(w.Client, served{})
			set := func(finalizers []string) {
				o := testkit.Parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: "+ns+"}\n")[0]
				o.SetFinalizers(finalizers)
				of := w.Resource(t, suite.ConfigMap, ns)
				if _, err := of.Apply(t.Context(), "x", o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
					t.Fatal(err)
				}
			}
			set(c.before)
			read := w.Get(t, suite.ConfigMap, ns, "x")
			if c.meanwhile != nil {
				set(c.meanwhile)
			}
			_, err := client.RemoveFinalizers(t.Context(), read, []string{"ours.x/y"}, "ours")
			if kube.IsStale(err) != c.gone || (err != nil) != c.gone {
				t.Errorf("the answer is %v", err)
			}
			if got := w.Get(t, suite.ConfigMap, ns, "x").GetFinalizers(); !slices.Equal(got, c.after) {
				t.Errorf("the finalizers are %v, not %v", got, c.after)
			}
			set(nil)
		})
	}
}
