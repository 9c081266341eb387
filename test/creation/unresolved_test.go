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

// cloudWithoutTokens assigns identities, and has neither tokens nor tags: the outcome of a creation
// whose response is lost cannot be found out.
var cloudWithoutTokens = cloud.Behaviour{Naming: cloud.ProviderAssigned, Tags: cloud.TagsNone}

func (l lifecycle) annotate(t *testing.T, ns, name, key, value string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	l.cluster.Patch(t, bucket, ns, name, string(body))
}

// syncedReason checks the reason of Synced and what its message contains.
func syncedReason(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		got, message := testkit.ConditionReason(o, "Synced"), testkit.ConditionMessage(o, "Synced")
		if got != reason {
			return fmt.Errorf("Synced has the reason %s: %s", got, message)
		}
		for _, word := range words {
			if !strings.Contains(message, word) {
				return fmt.Errorf("does not contain %q: %s", word, message)
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
		return fmt.Errorf("has no external name")
	}
	return nil
}

func (l lifecycle) creations() int {
	return len(l.cloud.Journal().Select(cloud.Did(cloud.VerbCreate)))
}

// createUnresolved creates a bucket whose creation has a fault, and waits until it reports that
// the outcome is unknown.
func (l lifecycle) createUnresolved(t *testing.T, fault cloud.Fault) (ns, name string) {
	t.Helper()
	fault.Verb = cloud.VerbCreate
	l.cloud.Inject(fault)
	ns = testkit.Namespace(t, l.config)
	name = "b-" + ns
	l.applyBucket(t, ns, name, false)
	l.cluster.Await(t, bucket, ns, name, syncedReason("CreateUnresolved", "crossplane.io/external-name", "espalier.dev/retry-create"))
	return ns, name
}

// TestAnUnresolvedCreationWaitsForAUser loses the response of a creation: nothing is created a second
// time until a user has resolved it.
func TestAnUnresolvedCreationWaitsForAUser(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(cloudWithoutTokens), policies: sets[0]}
	stop := run(t, config, l.cloud)
	defer func() { stop() }()

	t.Run("the resource exists, and a user names it", func(t *testing.T) {
		ns, name := l.createUnresolved(t, cloud.Fault{Lose: cloud.Timeout})
		stop()
		stop = run(t, config, l.cloud)
		before := l.creations()
		l.annotate(t, ns, name, "crossplane.io/reconcile-requested-at", "now")
		l.cluster.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt"); got != "now" {
				return fmt.Errorf("the last handled request is %q", got)
			}
			return syncedReason("CreateUnresolved")(o)
		})
		if now := l.creations(); now != before {
			t.Errorf("%d more creations", now-before)
		}
		all := l.cloud.Admin().Resources()
		if len(all) != 1 {
			t.Fatalf("the resources are %+v", all)
		}
		l.annotate(t, ns, name, "crossplane.io/external-name", all[0].ID)
		l.cluster.Await(t, bucket, ns, name, isBound)
		l.deleteAndCheck(t, ns, name, before)
	})
	t.Run("the resource does not exist, and a user requests another creation", func(t *testing.T) {
		before := l.creations()
		ns, name := l.createUnresolved(t, cloud.Fault{Refuse: cloud.Unavailable})
		l.annotate(t, ns, name, "espalier.dev/retry-create", "I have looked")
		l.cluster.Await(t, bucket, ns, name, isBound)
		l.deleteAndCheck(t, ns, name, before+2)
	})
	t.Run("the managed resource is deleted meanwhile", func(t *testing.T) {
		ns, name := l.createUnresolved(t, cloud.Fault{Lose: cloud.Timeout})
		before := l.creations()
		l.cluster.Delete(t, bucket, ns, name)
		l.cluster.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
			if o == nil {
				return fmt.Errorf("is deleted before its creation is resolved")
			}
			if o.GetDeletionTimestamp() == nil || testkit.ConditionReason(o, "Ready") != "Deleting" {
				return fmt.Errorf("Ready has the reason %s", testkit.ConditionReason(o, "Ready"))
			}
			return syncedReason("CreateUnresolved")(o)
		})
		all := l.cloud.Admin().Resources()
		if len(all) != 1 {
			t.Fatalf("the resources are %+v", all)
		}
		l.annotate(t, ns, name, "crossplane.io/external-name", all[0].ID)
		l.deleteAndCheck(t, ns, name, before)
	})
}

// deleteAndCheck deletes a bucket, and checks that nothing remains and how many creations were
// attempted.
func (l lifecycle) deleteAndCheck(t *testing.T, ns, name string, creations int) {
	t.Helper()
	l.cluster.Delete(t, bucket, ns, name)
	l.cluster.AwaitGone(t, bucket, ns, name)
	l.awaitNoBindings(t, ns, name)
	if got := l.creations(); got != creations {
		t.Errorf("%d creations were attempted, not %d", got, creations)
	}
	if all := l.cloud.Admin().Resources(); len(all) > 0 {
		t.Errorf("after the deletion the resources are %+v", all)
	}
}

// TestADeletionWaitsForTheCreationInFlight deletes a bucket that is being created: the creation
// finishes, and then the bucket is deleted.
func TestADeletionWaitsForTheCreationInFlight(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	for class, behaviour := range map[string]cloud.Behaviour{
		"named by the client": {CreateTime: time.Second, DeleteTime: 200 * time.Millisecond},
		"named by the cloud":  {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: time.Second},
	} {
		for _, policies := range [][]string{sets[0], {"Observe", "Create"}} {
			t.Run(class+"/"+strings.Join(policies, ""), func(t *testing.T) {
				l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(behaviour), policies: policies}
				defer run(t, config, l.cloud)()
				ns := testkit.Namespace(t, config)
				name := "b-" + ns
				l.applyBucket(t, ns, name, false)
				l.cluster.Await(t, bucket, ns, name, syncedReason("OperationInProgress", "creating"))
				l.cluster.Delete(t, bucket, ns, name)
				l.cluster.Await(t, bucket, ns, name, func(o *unstructured.Unstructured) error {
					if o == nil {
						return nil // already deleted
					}
					if o.GetDeletionTimestamp() == nil || testkit.ConditionReason(o, "Ready") != "Deleting" {
						return fmt.Errorf("Ready has the reason %s", testkit.ConditionReason(o, "Ready"))
					}
					return nil
				})
				l.cluster.AwaitGone(t, bucket, ns, name)
				l.awaitNoBindings(t, ns, name)
				if r := l.onlyResource(t, name); (r == nil) != l.may("Delete") {
					t.Errorf("after the deletion the resources are %+v", r)
				}
			})
		}
	}
}
