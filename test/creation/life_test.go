package creation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var (
	bucket  = v1alpha1.GroupVersion.WithKind("Bucket")
	binding = espalier.GroupVersion.WithKind(espalier.BindingKind)
)

// life is the creation, change and deletion of one managed resource.
type life struct {
	world    *testkit.Cluster
	config   *rest.Config
	sky      *cloud.Faulty
	policies []string
	// run starts the controllers; by default one set of them.
	run func(*testing.T, *rest.Config, *cloud.Faulty) (stop func())
}

// trouble is what goes wrong in a life.
type trouble struct {
	name string
	// crash makes the controllers die; nil lets them live.
	crash func(*cloud.Faulty) *testkit.Crash
	// fault befalls the first call that it is for; nil is none.
	fault *cloud.Fault
}

// passed is what a life took: how many writes, and which calls that change something.
type passed struct {
	writes int
	calls  []cloud.Verb
}

func (l life) may(action string) bool {
	return slices.Contains(l.policies, "*") || slices.Contains(l.policies, action)
}

// live plays it, with trouble, and returns what it took.
func (l life) live(t *testing.T, tr trouble) passed {
	t.Helper()
	ns := testkit.Namespace(t, l.config)
	name := "b-" + ns
	crash := testkit.NewCrash(0)
	if tr.crash != nil {
		crash = tr.crash(l.sky)
	}
	before := len(l.sky.Journal().Select(changing))
	if tr.fault != nil {
		l.sky.Inject(*tr.fault)
	}
	end := l.control(t, crash)
	defer end()
	made := l.world.Await(t, bucket, ns, name, isSynced(l.applyBucket(t, ns, name, false)))
	id := made.GetAnnotations()["crossplane.io/external-name"]
	l.world.Await(t, bucket, ns, name, isSynced(l.applyBucket(t, ns, name, true)))
	if r := l.onlyResource(t, name); r == nil {
		t.Errorf("%s: there is no bucket", tr.name)
	} else if r.ID != id || r.Properties.Versioning != l.may("Update") {
		t.Errorf("%s: %q is bound, and there is %+v", tr.name, id, r)
	}
	l.world.Delete(t, bucket, ns, name)
	l.world.AwaitGone(t, bucket, ns, name)
	if r := l.onlyResource(t, name); (r == nil) != l.may("Delete") {
		t.Errorf("%s: in the end there is %+v", tr.name, r)
	}
	l.awaitCleared(t, ns, name)
	if left := l.sky.Faults(); len(left) > 0 && !t.Failed() {
		t.Errorf("%s: it never happened: %+v", tr.name, left)
	}
	one := passed{writes: crash.Writes()}
	for _, e := range l.sky.Journal().Select(changing)[before:] {
		one.calls = append(one.calls, e.Verb)
	}
	return one
}

// control runs the controllers, and again once they have died.
func (l life) control(t *testing.T, crash *testkit.Crash) (end func()) {
	t.Helper()
	launch := l.run
	if launch == nil {
		launch = run
	}
	return crash.RunAndRestart(l.config, func(c *rest.Config) func() { return launch(t, c, l.sky) })
}

// applyBucket applies a bucket, and returns its generation: late initialization increments it
// again.
func (l life) applyBucket(t *testing.T, ns, name string, versioning bool) (generation int64) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: %s}\nspec: {managementPolicies: ['%s'], forProvider: {versioning: %t}}\n",
		name, ns, strings.Join(l.policies, "', '"), versioning)
	return l.world.Apply(t, text)[0].GetGeneration()
}

// isSynced checks that a generation has been reconciled.
func isSynced(generation int64) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if got := testkit.ConditionReason(o, "Synced"); got != "ReconcileSuccess" || observed < generation {
			return fmt.Errorf("Synced because of %s: %s, of generation %d", got, testkit.ConditionMessage(o, "Synced"), observed)
		}
		return nil
	}
}

// onlyResource is the one bucket that was made for the name; nil if there is none. Of the
// journal no more than one creation had an effect.
func (l life) onlyResource(t *testing.T, name string) *cloud.Resource {
	t.Helper()
	made := 0
	for _, e := range l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect) {
		if isOf(e.Key, e.Tags, name) {
			made++
		}
	}
	if made > 1 {
		t.Errorf("%d buckets were made for %s", made, name)
	}
	var found *cloud.Resource
	for _, r := range l.sky.Admin().Resources() {
		if isOf(r.Key, r.Tags, name) {
			found = &r
		}
	}
	return found
}

func isOf(key cloud.Key, tags map[string]string, of string) bool {
	return key.ID == of || strings.Contains(tags["espalier-owner"], "/"+of+"@")
}

// awaitCleared waits until no object is left on the API server.
func (l life) awaitCleared(t *testing.T, ns, name string) {
	t.Helper()
	err := testkit.AwaitList(t.Context(), l.world.Resource(t, binding, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		for key, o := range objects {
			if of, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "namespace"); of == ns {
				return fmt.Errorf("Binding %s of %s is left: %v", key, name, o.Object["spec"])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
