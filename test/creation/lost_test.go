package creation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// cloudWithoutTokens is an API that assigns identities, and has neither tokens nor marks: what came
// of a creation whose answer is lost, it cannot be asked.
var cloudWithoutTokens = cloud.Behaviour{Naming: cloud.ProviderAssigned, Tags: cloud.TagsNone}

func (l life) annotate(t *testing.T, ns, name, key, value string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	l.world.Patch(t, bucket, ns, name, string(body))
}

// syncedReason checks the reason of Synced and what its message contains.
func syncedReason(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		got, message := testkit.ConditionReason(o, "Synced"), testkit.ConditionMessage(o, "Synced")
		if got != reason {
			return fmt.Errorf("Synced because of %s: %s", got, message)
		}
		for _, word := range words {
			if !strings.Contains(message, word) {
				return fmt.Errorf("doesn't say %q: %s", word, message)
			}
		}
		return nil
	}
}

// isBound checks that a bucket has its external name.
func isBound(o *unstructured.Unstructured) error {
	if err := syncedReason("ReconcileSuccess")(o); err != nil {
		return err
	}
	if o.GetAnnotations()["crossplane.io/external-name"] == "" {
		return fmt.Errorf("it has no external name")
	}
	return nil
}

func (l life) creations() int {
	return len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate)))
}

// createUnresolved creates a bucket whose creation has a fault, and waits until it reports that
// the outcome is unknown.
func (l life) createUnresolved(t *testing.T, fault cloud.Fault) (ns, name string) {
	t.Helper()
	fault.Verb = cloud.VerbCreate
	l.sky.Inject(fault)
	ns = testkit.Namespace(t, l.config)
	name = "b-" + ns
	l.applyBucket(t, ns, name, false)
	l.world.Await(t, bucket, ns, name, syncedReason("CreateUnresolved", "crossplane.io/external-name", "espalier.dev/retry-create"))
	return ns, name
}

// TestAnUnresolvableCreationWaitsForAUser: nothing is created a second time
// until a user has looked.
func TestAnUnresolvableCreationWaitsForAUser(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(cloudWithoutTokens), policies: sets[0]}
	stop := run(t, config, l.sky)
	defer func() { stop() }()

	t.Run("it is there, and somebody says which it is", func(t *testing.T) {
		ns, name := l.createUnresolved(t, cloud.Fault{Lose: cloud.Timeout})
		stop()
		stop = run(t, config, l.sky)
		before := l.creations()
		l.annotate(t, ns, name, "crossplane.io/reconcile-requested-at", "now")
		l.world.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt"); got != "now" {
				return fmt.Errorf("nobody has looked since: %q", got)
			}
			return syncedReason("CreateUnresolved")(o)
		})
		if now := l.creations(); now != before {
			t.Errorf("%d more creations", now-before)
		}
		all := l.sky.Admin().Resources()
		if len(all) != 1 {
			t.Fatalf("there is %+v", all)
		}
		l.annotate(t, ns, name, "crossplane.io/external-name", all[0].ID)
		l.world.Await(t, bucket, ns, name, isBound)
		l.deleteAndCheck(t, ns, name, before)
	})
	t.Run("it isn't there, and somebody says so", func(t *testing.T) {
		before := l.creations()
		ns, name := l.createUnresolved(t, cloud.Fault{Refuse: cloud.Unavailable})
		l.annotate(t, ns, name, "espalier.dev/retry-create", "I have looked")
		l.world.Await(t, bucket, ns, name, isBound)
		l.deleteAndCheck(t, ns, name, before+2)
	})
	t.Run("it is deleted meanwhile", func(t *testing.T) {
		ns, name := l.createUnresolved(t, cloud.Fault{Lose: cloud.Timeout})
		before := l.creations()
		l.world.Delete(t, bucket, ns, name)
		l.world.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
			if o == nil {
				return fmt.Errorf("it is gone, and what it has made isn't known")
			}
			if o.GetDeletionTimestamp() == nil || testkit.ConditionReason(o, "Ready") != "Deleting" {
				return fmt.Errorf("Ready because of %s", testkit.ConditionReason(o, "Ready"))
			}
			return syncedReason("CreateUnresolved")(o)
		})
		all := l.sky.Admin().Resources()
		if len(all) != 1 {
			t.Fatalf("there is %+v", all)
		}
		l.annotate(t, ns, name, "crossplane.io/external-name", all[0].ID)
		l.deleteAndCheck(t, ns, name, before)
	})
}

// deleteAndCheck deletes a bucket, and checks that nothing is left and how many creations were
// tried.
func (l life) deleteAndCheck(t *testing.T, ns, name string, creations int) {
	t.Helper()
	l.world.Delete(t, bucket, ns, name)
	l.world.AwaitGone(t, bucket, ns, name)
	l.awaitCleared(t, ns, name)
	if got := l.creations(); got != creations {
		t.Errorf("%d creations were tried, not %d", got, creations)
	}
	if all := l.sky.Admin().Resources(); len(all) > 0 {
		t.Errorf("in the end there is %+v", all)
	}
}

// TestADeletionWaitsForTheCreationInFlight deletes what is being made: its
// creation is seen to its end, and then undone.
func TestADeletionWaitsForTheCreationInFlight(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	for class, behaviour := range map[string]cloud.Behaviour{
		"named by us": {CreateTime: time.Second, DeleteTime: 200 * time.Millisecond},
		"named by it": {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: time.Second},
	} {
		for _, policies := range [][]string{sets[0], {"Observe", "Create"}} {
			t.Run(class+"/"+strings.Join(policies, ""), func(t *testing.T) {
				l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(behaviour), policies: policies}
				defer run(t, config, l.sky)()
				ns := testkit.Namespace(t, config)
				name := "b-" + ns
				l.applyBucket(t, ns, name, false)
				l.world.Await(t, bucket, ns, name, syncedReason("OperationInProgress", "creating"))
				l.world.Delete(t, bucket, ns, name)
				l.world.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
					if o == nil {
						return nil // it was quick
					}
					if o.GetDeletionTimestamp() == nil || testkit.ConditionReason(o, "Ready") != "Deleting" {
						return fmt.Errorf("Ready because of %s", testkit.ConditionReason(o, "Ready"))
					}
					return nil
				})
				l.world.AwaitGone(t, bucket, ns, name)
				l.awaitCleared(t, ns, name)
				if r := l.onlyResource(t, name); (r == nil) != l.may("Delete") {
					t.Errorf("in the end there is %+v", r)
				}
			})
		}
	}
}
