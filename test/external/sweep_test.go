package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

var (
	bucket  = v1alpha1.GroupVersion.WithKind("Bucket")
	binding = espalier.GroupVersion.WithKind(espalier.BindingKind)
)

// classes are what the cloud may be like for buckets.
var classes = map[string]cloud.Behaviour{
	"named by us":                  {},
	"named by us, slow":            {CreateTime: 300 * time.Millisecond, UpdateTime: 200 * time.Millisecond, DeleteTime: 300 * time.Millisecond},
	"named by us, shown late":      {CreateLag: 300 * time.Millisecond, DeleteLag: 300 * time.Millisecond, Tags: cloud.TagsNone},
	"named by it, with tokens":     {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: 200 * time.Millisecond, Tags: cloud.TagsShown},
	"named by it, found by a mark": {Naming: cloud.ProviderAssigned, CreateLag: 200 * time.Millisecond, DeleteLag: 200 * time.Millisecond, CreateTime: 200 * time.Millisecond},
}

// sets are those of policies that the full sweep goes through; the first is for
// every day: without LateInitialize identities have been lost elsewhere.
var sets = [][]string{
	{"Observe", "Create", "Update", "Delete"}, {"*"}, {"Observe", "Create"}, {"Observe", "Create", "Delete"},
	{"Observe", "Create", "Update"}, {"Observe", "Create", "LateInitialize"}, {"Observe", "Create", "Update", "LateInitialize"},
	{"Observe", "Create", "Delete", "LateInitialize"}, {"Observe", "Create", "Update", "Delete", "LateInitialize"},
}

type silent struct{}

func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}

// run starts the controllers and returns how to stop them.
func run(t *testing.T, config *rest.Config, sky *cloud.Cloud) (stop func()) {
	t.Helper()
	c, err := server.NewControllers(server.Options{
		Config: config, Workers: 4, Version: "test", Log: logr.Discard(), Events: silent{}, Providers: []managed.Provider{sandbox.Provider(sky)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx) // a crash is an error
	}()
	return func() { cancel(); <-done }
}

func TestSweepTheControllersDieAfterEveryWrite(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	lives := 0
	for class, behaviour := range classes {
		for _, policies := range sets[:testkit.Size(1, len(sets))] {
			t.Run(class+"/"+strings.Join(policies, ""), func(t *testing.T) {
				sky, err := cloud.Open(t.TempDir(), cloud.Options{Behaviours: map[cloud.Type]cloud.Behaviour{cloud.TypeBucket: behaviour}})
				if err != nil {
					t.Fatal(err)
				}
				defer sky.Close()
				l := life{world: w, config: config, sky: sky, policies: policies}
				writes := l.live(t, 0)
				for n := 1; n <= writes && !t.Failed(); n++ {
					l.live(t, n)
				}
				lives += writes + 1
				t.Logf("%d writes", writes)
			})
		}
	}
	testkit.Say(t, "external: %d lives of a managed resource, the controllers dying after every write", lives)
}

// life is the creation, change and deletion of one managed resource.
type life struct {
	world    *testkit.World
	config   *rest.Config
	sky      *cloud.Cloud
	policies []string
}

func (l life) may(action string) bool {
	return slices.Contains(l.policies, "*") || slices.Contains(l.policies, action)
}

// live plays it, with a crash after the n-th write, and returns how many there were.
func (l life) live(t *testing.T, n int) int {
	t.Helper()
	ns := testkit.Namespace(t, l.config)
	name := "b-" + ns
	crash := testkit.NewCrash(n)
	stop := run(t, crash.Wrap(l.config), l.sky)
	revived, over := make(chan func(), 1), make(chan struct{})
	go func() {
		select {
		case <-crash.Crashed():
			stop()
			revived <- run(t, l.config, l.sky)
		case <-over:
			revived <- stop
		}
	}()
	defer func() {
		close(over)
		(<-revived)()
	}()
	l.put(t, ns, name, false)
	made := l.world.Await(t, bucket, ns, name, synced(1))
	id := made.GetAnnotations()["crossplane.io/external-name"]
	l.put(t, ns, name, true)
	l.world.Await(t, bucket, ns, name, synced(2))
	if r := l.only(t, name); r == nil {
		t.Errorf("crash at %d: there is no bucket", n)
	} else if r.ID != id || r.Properties.(cloud.Bucket).Versioning != l.may("Update") {
		t.Errorf("crash at %d: %q is bound, and there is %+v", n, id, r)
	}
	l.world.Delete(t, bucket, ns, name)
	l.world.AwaitGone(t, bucket, ns, name)
	if r := l.only(t, name); (r == nil) != l.may("Delete") {
		t.Errorf("crash at %d: in the end there is %+v", n, r)
	}
	l.clear(t, ns, name)
	return crash.Writes()
}

func (l life) put(t *testing.T, ns, name string, versioning bool) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: %s}\nspec: {managementPolicies: ['%s'], forProvider: {versioning: %t}}\n",
		name, ns, strings.Join(l.policies, "', '"), versioning)
	l.world.Apply(t, text)
}

// synced checks that a generation has been seen to.
func synced(generation int64) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if got := testkit.ReasonOf(o, "Synced"); got != "ReconcileSuccess" || observed < generation {
			return fmt.Errorf("Synced because of %s: %s, of generation %d", got, testkit.Message(o, "Synced"), observed)
		}
		return nil
	}
}

// only is the one bucket that was made for the name; nil if there is none. Of the
// journal no more than one creation had an effect.
func (l life) only(t *testing.T, name string) *cloud.Resource {
	t.Helper()
	made := 0
	for _, e := range l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect) {
		if e.Name == name || strings.Contains(e.Tags["espalier-owner"], "/"+name+"@") {
			made++
		}
	}
	if made > 1 {
		t.Errorf("%d buckets were made for %s", made, name)
	}
	all, err := l.sky.Admin().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var found *cloud.Resource
	for i := range all.Resources {
		if r := &all.Resources[i]; r.Name == name || strings.Contains(r.Tags["espalier-owner"], "/"+name+"@") {
			found = r
		}
	}
	return found
}

// clear waits until nothing is left of a life on the API server.
func (l life) clear(t *testing.T, ns, name string) {
	t.Helper()
	err := testkit.AwaitAny(t.Context(), l.world.Of(t, binding, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
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
