package cloudcontrol_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// batched is a type with a read of many, whose resources a controller observes.
type batched struct {
	*world
	batches atomic.Int64
	objects []*unstructured.Unstructured
	refs    []external.Ref
}

func newBatched(t *testing.T, typeName string, forProvider map[string]any, count int, reads *cloudcontrol.Reads, unread ...string) *batched {
	t.Helper()
	b := &batched{}
	b.world = newWorld(t, typeName, forProvider, hook.Hooks{Unread: unread, ReadMany: func(_ context.Context, _ aws.Config, ids []string) (map[string]hook.Resource, error) {
		b.batches.Add(1)
		out := map[string]hook.Resource{}
		for _, id := range ids {
			properties := maps.Clone(b.cloud.Properties(typeName, id))
			for _, name := range unread {
				delete(properties, name)
			}
			out[id] = hook.Resource{Identifier: id, Properties: properties}
		}
		return out, nil
	}})
	b.account.Reads = reads
	b.object.SetGeneration(1)
	for range count {
		b.refs = append(b.refs, b.create())
		b.objects = append(b.objects, b.object.DeepCopy())
	}
	return b
}

// poll observes a resource, and writes what the controller writes.
func (b *batched) poll(n int) external.Observation {
	o := b.objects[n]
	c, err := b.kind.Connect(b.Context(), b.account, b, o)
	if err != nil {
		b.Error(err)
		return external.Observation{}
	}
	seen, err := c.Observe(b.Context(), o, b.refs[n])
	if err != nil {
		b.Error(err)
		return seen
	}
	for name, value := range seen.LateInit {
		_ = unstructured.SetNestedField(o.Object, value, "spec", "forProvider", name)
		o.SetGeneration(o.GetGeneration() + 1)
	}
	o.Object["status"] = map[string]any{
		"atProvider": seen.AtProvider, "observedGeneration": o.GetGeneration(),
		"lastHandledReconcileAt": o.GetAnnotations()[resource.ReconcileRequestedAtAnnotation],
		"conditions":             []any{condition(o, resource.Ready, seen.Ready), condition(o, resource.Synced, seen.UpToDate)},
	}
	return seen
}

func condition(o *unstructured.Unstructured, name string, is external.Answer) map[string]any {
	status := map[bool]string{true: "True", false: "False"}[is == external.Yes]
	return map[string]any{"type": name, "status": status, "observedGeneration": o.GetGeneration()}
}

func (b *batched) calls() int64 { return b.batches.Load() + int64(b.cloud.Calls("GetResource")) }

// TestReadsOfVPCsWithDNSSupportAtRest observes 500 VPCs with a property that only the read of one returns, and
// 500 subnets, with late initialization, once a minute. In the long run, AWS is read at most once for 50 of them.
func TestReadsOfVPCsWithDNSSupportAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, warm, minutes = 500, 3, 9
		reads := cloudcontrol.NewReads(time.Now)
		vpcs := newBatched(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16", "EnableDnsSupport": true}, each, reads,
			hook.For("AWS::EC2::VPC").Unread...)
		subnets := newBatched(t, "AWS::EC2::Subnet", map[string]any{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24"}, each, reads,
			hook.For("AWS::EC2::Subnet").Unread...)
		queue := make(chan int)
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for n := range queue {
					if o := []*batched{vpcs, subnets}[n%2].poll(n / 2); o.UpToDate != external.Yes {
						t.Errorf("%d differs: %s", n, o.Diff)
					}
				}
			})
		}
		var before int64
		for minute := range minutes {
			if minute == warm {
				before = vpcs.calls() + subnets.calls()
			}
			for n := range 2 * each {
				<-time.After(time.Minute / (2 * each))
				queue <- n
			}
		}
		close(queue)
		workers.Wait()
		count, polls := vpcs.calls()+subnets.calls()-before, int64(2*each*(minutes-warm))
		t.Logf("%d reads for %d polls", count, polls)
		if count*50 > polls {
			t.Errorf("there are %d reads for %d polls", count, polls)
		}
	})
}

// TestAPropertyOfASingleReadIsSeen has a difference that only the read of one VPC shows.
func TestAPropertyOfASingleReadIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatched(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16", "EnableDnsSupport": true}, 1,
			cloudcontrol.NewReads(time.Now), "EnableDnsSupport")
		alone := func() (external.Observation, int) {
			before := b.cloud.Calls("GetResource")
			o := b.poll(0)
			return o, b.cloud.Calls("GetResource") - before
		}
		if _, n := alone(); n != 1 {
			t.Fatalf("after the creation, there are %d reads of one", n)
		}
		alone() // after the change of the spec by late initialization
		if o, n := alone(); n != 0 || o.AtProvider["EnableDnsSupport"] != true {
			t.Fatalf("at rest, there are %d reads of one, and the status is %v", n, o.AtProvider)
		}
		b.cloud.Change("AWS::EC2::VPC", string(b.refs[0]), func(p map[string]any) { p["EnableDnsSupport"] = false })
		<-time.After(11 * time.Minute)
		if o, n := alone(); n != 1 || o.UpToDate != external.No {
			t.Errorf("after eleven minutes, there are %d reads of one, and the resource is up to date: %v", n, o.UpToDate)
		}
		b.cloud.Change("AWS::EC2::VPC", string(b.refs[0]), func(p map[string]any) { p["EnableDnsSupport"] = true })
		if o, n := alone(); n != 1 || o.UpToDate != external.Yes {
			t.Errorf("a difference from an earlier read is not confirmed: %d reads of one, up to date: %v", n, o.UpToDate)
		}
		b.objects[0].SetGeneration(b.objects[0].GetGeneration() + 1)
		if _, n := alone(); n != 1 {
			t.Errorf("after a change of the spec, there are %d reads of one", n)
		}
		b.account.Reads.Forget("AWS::EC2::VPC", string(b.refs[0]))
		if _, n := alone(); n != 1 {
			t.Errorf("after an operation, there are %d reads of one", n)
		}
	})
}

// newResting returns two VPCs at rest that were observed each minute, the second one last half a minute ago.
func newResting(t *testing.T) *batched {
	t.Helper()
	b := newBatched(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16", "Tags": []any{}}, 2, cloudcontrol.NewReads(time.Now))
	for range 4 {
		b.poll(0)
		<-time.After(30 * time.Second)
		b.poll(1)
		<-time.After(30 * time.Second)
	}
	return b
}

// TestAnOlderResultIsConfirmedBeforeItCounts has a difference that ends between the read of many and the observation.
func TestAnOlderResultIsConfirmedBeforeItCounts(t *testing.T) {
	cases := map[string]struct {
		policies []any
		want     external.Answer
		// reads is how many the observation takes.
		reads int64
	}{
		"since an update would follow":             {nil, external.Yes, 1},
		"unless the policies do not allow updates": {[]any{"Observe"}, external.No, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newResting(t)
				if tc.policies != nil {
					_ = unstructured.SetNestedSlice(b.objects[1].Object, tc.policies, "spec", "managementPolicies")
				}
				tag := func(tags ...any) {
					b.cloud.Change("AWS::EC2::VPC", string(b.refs[1]), func(p map[string]any) { p["Tags"] = append(tags, p["Tags"].([]any)...) })
				}
				tag(map[string]any{"Key": "a", "Value": "b"})
				before := b.calls()
				b.poll(0) // reads both
				if count := b.calls() - before; count > 1 {
					t.Fatalf("the first observation takes %d reads", count)
				}
				b.cloud.Change("AWS::EC2::VPC", string(b.refs[1]), func(p map[string]any) { p["Tags"] = p["Tags"].([]any)[1:] })
				<-time.After(30 * time.Second)
				before = b.calls()
				if o := b.poll(1); o.UpToDate != tc.want {
					t.Errorf("the resource is up to date: %v, with %s", o.UpToDate, o.Diff)
				}
				if count := b.calls() - before; count != tc.reads {
					t.Errorf("the observation takes %d reads, not %d", count, tc.reads)
				}
			})
		})
	}
}

// TestARequestedReconcileReadsAgain observes a resource that was read with another one before.
func TestARequestedReconcileReadsAgain(t *testing.T) {
	changes := map[string]struct {
		change func(*unstructured.Unstructured)
		reads  int64
	}{
		"nothing": {func(*unstructured.Unstructured) {}, 0},
		"the annotation": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{resource.ReconcileRequestedAtAnnotation: "now"})
		}, 1},
		"the spec": {func(o *unstructured.Unstructured) { o.SetGeneration(o.GetGeneration() + 1) }, 1},
		"that it is not ready": {func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{condition(o, resource.Synced, external.Yes), condition(o, resource.Ready, external.No)}, "status", "conditions")
		}, 1},
		"its deletion": {func(o *unstructured.Unstructured) { now := metav1.Now(); o.SetDeletionTimestamp(&now) }, 1},
	}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newResting(t)
				b.poll(0) // reads both
				tc.change(b.objects[1])
				<-time.After(30 * time.Second)
				before := b.calls()
				b.poll(1)
				if count := b.calls() - before; count != tc.reads {
					t.Errorf("the observation takes %d reads, not %d", count, tc.reads)
				}
			})
		})
	}
}

// TestReadsAtRestByType observes resources of each type with a read of many once a minute, with late initialization.
func TestReadsAtRestByType(t *testing.T) {
	for _, typeName := range hook.Types() {
		hooks := hook.For(typeName)
		if hooks.ReadMany == nil {
			continue
		}
		t.Run(typeName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const count, warm, minutes = 120, 4, 10
				forProvider := map[string]any{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24", "SubnetId": "subnet-1", "GroupDescription": "a"}
				b := newBatched(t, typeName, forProvider, count, cloudcontrol.NewReads(time.Now), hooks.Unread...)
				var before int64
				for minute := range minutes {
					if minute == warm {
						before = b.calls()
					}
					for n := range count {
						<-time.After(time.Minute / count)
						if o := b.poll(n); o.UpToDate != external.Yes {
							t.Fatalf("%d differs: %s", n, o.Diff)
						}
					}
				}
				reads := b.calls() - before
				t.Logf("%d reads in %d polls", reads, minutes-warm)
				if most := int64(count * (minutes - warm) / 50); reads > most {
					t.Errorf("there are %d reads, more than %d", reads, most)
				}
			})
		})
	}
}
