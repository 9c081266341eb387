package follow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what watches complain about at the end of a test is no news
	os.Exit(testkit.Main(m))
}

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secret    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// following is a test that follows the ConfigMap "top" of a namespace of its own.
type following struct {
	*testkit.Cluster
	cluster   *reader.Cluster
	mapping   *meta.RESTMapping // of Secrets
	namespace string
	states    chan observe.ClusterState
	ended     chan error
}

func setUp(t *testing.T) *following {
	t.Helper()
	config := testkit.Server(t)
	cluster, err := reader.New(config)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := cluster.Kinds.RESTMapping(secret.GroupKind())
	if err != nil {
		t.Fatal(err)
	}
	return &following{
		mapping: mapping,
		Cluster: testkit.NewCluster(t, config), cluster: cluster, namespace: testkit.Namespace(t, config),
		states: make(chan observe.ClusterState), ended: make(chan error, 1),
	}
}

// apply makes an object an instance, or part of one, by metadata alone: any
// object can be one. Sets are unique to the namespace.
func (f *following) apply(t *testing.T, kind, name, instance, partOf, kinds string) {
	t.Helper()
	labels := map[string]string{"applyset.kubernetes.io/id": instance, "applyset.kubernetes.io/part-of": partOf}
	text := fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\n  annotations: {applyset.kubernetes.io/contains-group-kinds: %q}\n  labels: {kro.run/node-id: %s", kind, name, f.namespace, kinds, name)
	for label, set := range labels {
		if set != "" {
			text += fmt.Sprintf(", %s: %s-%s", label, set, f.namespace)
		}
	}
	f.Apply(t, text+"}\n")
}

func (f *following) begin(ctx context.Context, t *testing.T, meant func(reader.Target) reader.Target) {
	t.Helper()
	target, err := f.cluster.Kinds.Target("configmap", f.namespace, "top")
	if err != nil {
		t.Fatal(err)
	}
	go func() { f.ended <- follow.Follow(ctx, f.cluster, meant(target), f.states) }()
}

// await waits until the tree has the given names, from the top down.
func (f *following) await(ctx context.Context, t *testing.T, what, want string) {
	t.Helper()
	for last := "nothing"; last != want; {
		select {
		case w := <-f.states:
			last = namesOf(w)
		case <-ctx.Done():
			t.Fatalf("%s: not seen; last was %q", what, last)
		}
	}
}

func namesOf(w observe.ClusterState) string {
	var names []string
	for _, r := range observe.RowsOf(observe.BuildAll(w, time.Now()), time.Now()) {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func anybody(t reader.Target) reader.Target { return t }

func TestFollowObservesCreationsAndDeletions(t *testing.T) {
	f := setUp(t)
	ctx, stop := context.WithTimeout(t.Context(), testkit.Timeout)
	defer stop()
	f.apply(t, "ConfigMap", "top", "one", "", "ConfigMap,Secret,Nothing.nowhere.example.com")
	f.begin(ctx, t, anybody)
	f.await(ctx, t, "the top alone", "top")
	f.apply(t, "ConfigMap", "middle", "two", "one", "Secret")
	f.await(ctx, t, "an instance that comes", "top middle")
	f.apply(t, "Secret", "low", "", "two", "")
	f.await(ctx, t, "what comes below it", "top middle low")
	f.Delete(t, secret, f.namespace, "low")
	f.await(ctx, t, "what goes below it", "top middle")
	f.Delete(t, configMap, f.namespace, "top")
	f.await(ctx, t, "the end", "")
	if err := <-f.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestFollowingAKindObservesAllItsObjects(t *testing.T) {
	f := setUp(t)
	ctx, stop := context.WithTimeout(t.Context(), testkit.Timeout)
	defer stop()
	f.begin(ctx, t, func(t reader.Target) reader.Target {
		t.Mapping, t.Name = f.mapping, ""
		return t
	})
	f.await(ctx, t, "that there is none", "")
	f.apply(t, "Secret", "b", "one", "", "ConfigMap")
	f.await(ctx, t, "the first", "b")
	f.apply(t, "Secret", "a", "", "", "")
	f.await(ctx, t, "another, in order", "a b")
	f.apply(t, "ConfigMap", "low", "", "one", "")
	f.await(ctx, t, "what is below one", "a b low")
	f.Delete(t, secret, f.namespace, "a")
	f.await(ctx, t, "what goes", "b low")
	f.Delete(t, secret, f.namespace, "b")
	f.await(ctx, t, "that there is none again", "")
	stop()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestALaterObjectOfTheSameNameIsNotFollowed(t *testing.T) {
	f := setUp(t)
	ctx, stop := context.WithTimeout(t.Context(), testkit.Timeout)
	defer stop()
	f.apply(t, "ConfigMap", "top", "one", "", "")
	first := f.Get(t, configMap, f.namespace, "top").GetUID()
	f.begin(ctx, t, func(t reader.Target) reader.Target {
		t.UID = first
		return t
	})
	f.await(ctx, t, "the first", "top")
	f.Delete(t, configMap, f.namespace, "top")
	f.apply(t, "ConfigMap", "top", "one", "", "")
	f.await(ctx, t, "its end, though the name is there again", "")

	target, err := f.cluster.Kinds.Target("cm", f.namespace, "top")
	if err != nil {
		t.Fatal(err)
	}
	if w, err := follow.Gather(ctx, f.cluster, target); err != nil || w.Root.GetUID() == first {
		t.Errorf("by its name the second isn't found: %v", err)
	}
	target.UID = first
	if _, err := follow.Gather(ctx, f.cluster, target); err == nil {
		t.Error("the first is found, though it is gone")
	}
}

// TestFollowWithoutPermissions reads and follows as a user who may read ConfigMaps and no Secrets.
func TestFollowWithoutPermissions(t *testing.T) {
	f := setUp(t)
	ctx, stop := context.WithTimeout(t.Context(), testkit.Timeout)
	defer stop()
	user := "reader-" + f.namespace
	f.Apply(t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, f.namespace, user))
	f.apply(t, "ConfigMap", "top", "one", "", "ConfigMap,Secret")
	f.apply(t, "Secret", "low", "", "one", "")
	config := rest.CopyConfig(testkit.Server(t))
	config.Impersonate.UserName = user
	var err error
	if f.cluster, err = reader.New(config); err != nil {
		t.Fatal(err)
	}
	want := []string{"secrets in namespace " + f.namespace}
	f.begin(ctx, t, anybody)
	for last := (observe.ClusterState{}); !slices.Equal(last.Unreadable, want) || namesOf(last) != "top"; {
		select {
		case last = <-f.states:
		case err := <-f.ended:
			t.Fatalf("it ended with %v", err)
		case <-ctx.Done():
			t.Fatalf("last was %s without %v", namesOf(last), last.Unreadable)
		}
	}
	target, err := f.cluster.Kinds.Target("configmap", f.namespace, "top")
	if err != nil {
		t.Fatal(err)
	}
	if once, err := follow.Gather(ctx, f.cluster, target); err != nil || !slices.Equal(once.Unreadable, want) || namesOf(once) != "top" {
		t.Errorf("read %s without %v, %v", namesOf(once), once.Unreadable, err)
	}
	if err := follow.Follow(ctx, f.cluster, reader.Target{Mapping: f.mapping, Namespace: f.namespace, Name: "low"}, f.states); !apierrors.IsForbidden(err) {
		t.Errorf("following what may not be read ends with %v", err)
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	f := setUp(t)
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	f.apply(t, "ConfigMap", "top", "one", "", "")
	f.begin(ctx, t, anybody)
	<-f.states
	stop(enough)
	if err := <-f.ended; !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
}
