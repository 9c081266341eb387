package takeover

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheFirstReconcileKeepsTrueConditions: the takeover changes annotations of Deployments, which
// raises their generation. No controller of Deployments runs here, so that a Deployment that counts
// as not ready because of that remains so.
func TestTheFirstReconcileKeepsTrueConditions(t *testing.T) {
	s := suite.New(t)
	names := slices.Sorted(maps.Keys(before))
	for _, name := range names {
		if was := before[name]; was.GetKind() == "Deployment" && !strings.Contains(name, "team-c/going") && !strings.Contains(name, "/paused") {
			s.Await(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName(), applied)
		}
	}
	compared := 0
	for _, name := range names {
		was := before[name]
		if was.GetDeletionTimestamp() != nil || !isInstance(was) || was.GetAnnotations()["crossplane.io/paused"] != "" {
			continue
		}
		triggerReconcile(t, s, was)
		is := s.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())
		if strings.HasPrefix(was.GetKind(), "X") && is.GetGeneration() != was.GetGeneration() {
			t.Errorf("%s: generation was %d and is %d", name, was.GetGeneration(), is.GetGeneration())
		}
		now := condition.Read(is)
		for _, c := range condition.Read(was) {
			if c.Status != condition.True || c.Type == "Responsive" {
				continue
			}
			compared++
			if n, _ := now.Get(c.Type); n.Status != c.Status || !n.LastTransitionTime.Equal(c.LastTransitionTime) {
				t.Errorf("condition %s of %s was %s since %s, and is %s since %s: %s\n%s", c.Type, name, c.Status, c.LastTransitionTime, n.Status, n.LastTransitionTime, n.Message, history.of(was))
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d conditions were compared", compared)
	}
}

func isInstance(o *unstructured.Unstructured) bool {
	group := o.GroupVersionKind().Group
	return group == "platform.example.org" || group == "legacy.example.org" || group == "apps.example.org"
}

// triggerReconcile triggers a reconcile of an instance, and waits until it ends.
func triggerReconcile(t *testing.T, s suite.Suite, o *unstructured.Unstructured) {
	t.Helper()
	touched := time.Now()
	patch := `{"metadata":{"annotations":{"example.org/touched":"` + string(o.GetUID()) + `"}}}`
	s.Patch(t, o.GroupVersionKind(), o.GetNamespace(), o.GetName(), patch)
	testkit.Poll(t, "a pass over "+o.GetKind()+" "+o.GetName(), func() bool { return reconciles.since(object.KeyOf(o), touched) })
}
