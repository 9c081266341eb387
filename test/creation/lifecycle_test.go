package creation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// lifecycle is the creation, change and deletion of one managed resource.
type lifecycle struct {
	cluster  *testkit.Cluster
	config   *rest.Config
	cloud    *cloud.Faulty
	policies []string
	// run starts the controllers; by default one process.
	run func(*testing.T, *rest.Config, *cloud.Faulty) (stop func())
}

// failure is the failure in a lifecycle.
type failure struct {
	name string
	// crash makes the controllers crash; nil is no crash.
	crash func(*cloud.Faulty) *testkit.Crash
	// fault happens to the first call that it matches; nil is none.
	fault *cloud.Fault
}

// trace is the number of writes of a lifecycle, and its calls that change something.
type trace struct {
	writes int
	calls  []cloud.Verb
}

func (l lifecycle) may(action string) bool {
	return slices.Contains(l.policies, "*") || slices.Contains(l.policies, action)
}

// exercise creates, changes and deletes the resource, with a failure, and returns the trace.
func (l lifecycle) exercise(t *testing.T, with failure) trace {
	t.Helper()
	ns := testkit.Namespace(t, l.config)
	name := "b-" + ns
	crash := testkit.NewCrash(0)
	if with.crash != nil {
		crash = with.crash(l.cloud)
	}
	before := len(l.cloud.Journal().Select(changing))
	if with.fault != nil {
		l.cloud.Inject(*with.fault)
	}
	end := l.control(t, crash)
	defer end()
	made := l.cluster.Await(t, bucket, ns, name, isSynced(l.applyBucket(t, ns, name, false)))
	id := made.GetAnnotations()["crossplane.io/external-name"]
	l.cluster.Await(t, bucket, ns, name, isSynced(l.applyBucket(t, ns, name, true)))
	if r := l.onlyResource(t, name); r == nil {
		t.Errorf("%s: no bucket exists", with.name)
	} else if r.ID != id || r.Properties.Versioning != l.may("Update") {
		t.Errorf("%s: the external name is %q, and the bucket is %+v", with.name, id, r)
	}
	l.cluster.Delete(t, bucket, ns, name)
	l.cluster.AwaitGone(t, bucket, ns, name)
	if r := l.onlyResource(t, name); (r == nil) != l.may("Delete") {
		t.Errorf("%s: after the deletion the bucket is %+v", with.name, r)
	}
	l.awaitNoBindings(t, ns, name)
	if left := l.cloud.Faults(); len(left) > 0 && !t.Failed() {
		t.Errorf("%s: the fault never happened: %+v", with.name, left)
	}
	out := trace{writes: crash.Writes()}
	for _, e := range l.cloud.Journal().Select(changing)[before:] {
		out.calls = append(out.calls, e.Verb)
	}
	return out
}

// control runs the controllers, and runs them again after a crash.
func (l lifecycle) control(t *testing.T, crash *testkit.Crash) (end func()) {
	t.Helper()
	launch := l.run
	if launch == nil {
		launch = run
	}
	return crash.RunAndRestart(l.config, func(c *rest.Config) func() { return launch(t, c, l.cloud) })
}

// applyBucket applies a bucket, and returns its generation: late initialization increments it
// again.
func (l lifecycle) applyBucket(t *testing.T, ns, name string, versioning bool) (generation int64) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: %s}\nspec: {managementPolicies: ['%s'], forProvider: {versioning: %t}}\n",
		name, ns, strings.Join(l.policies, "', '"), versioning)
	return l.cluster.Apply(t, text)[0].GetGeneration()
}

// isSynced checks that a generation has been reconciled.
func isSynced(generation int64) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if got := testkit.ConditionReason(o, "Synced"); got != "ReconcileSuccess" || observed < generation {
			return fmt.Errorf("Synced has the reason %s: %s, of generation %d", got, testkit.ConditionMessage(o, "Synced"), observed)
		}
		return nil
	}
}

// onlyResource returns the bucket that was created for the name; nil if there is none. It checks that
// at most one creation had an effect.
func (l lifecycle) onlyResource(t *testing.T, name string) *cloud.Resource {
	t.Helper()
	made := 0
	for _, e := range l.cloud.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect) {
		if isOwnedBy(e.Key, e.Tags, name) {
			made++
		}
	}
	if made > 1 {
		t.Errorf("%d buckets were created for %s", made, name)
	}
	var found *cloud.Resource
	for _, r := range l.cloud.Admin().Resources() {
		if isOwnedBy(r.Key, r.Tags, name) {
			found = &r
		}
	}
	return found
}

func isOwnedBy(key cloud.Key, tags map[string]string, name string) bool {
	return key.ID == name || strings.Contains(tags["espalier-owner"], "/"+name+"@")
}

// awaitNoBindings waits until no Binding of the namespace exists.
func (l lifecycle) awaitNoBindings(t *testing.T, ns, name string) {
	t.Helper()
	l.cluster.AwaitList(t, binding, "", "", func(objects map[string]*unstructured.Unstructured) error {
		for key, o := range objects {
			if of, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "namespace"); of == ns {
				return fmt.Errorf("Binding %s of %s remains: %v", key, name, o.Object["spec"])
			}
		}
		return nil
	})
}
