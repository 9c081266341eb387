package creation

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestNothingIsReportedWithoutLeadership changes the spec when the lease is about to expire, for
// example since its renewal is slow: no call may begin, so the status must not report the change as
// done.
func TestNothingIsReportedWithoutLeadership(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(cloud.Behaviour{}), policies: sets[0]}
	var expired atomic.Bool
	requeued := make(chan struct{})
	stop := runWith(t, server.Options{
		Config: config,
		LeaderUntil: func() time.Time {
			if expired.Load() {
				return time.Now()
			}
			return time.Time{}
		},
		Observe: func(p reconcile.Run) {
			if expired.Load() && p.Key.Kind == bucket.Kind && p.RequeueAfter > 0 && p.RequeueAfter < time.Second {
				select {
				case requeued <- struct{}{}:
				default:
				}
			}
		},
	}, l.cloud)
	defer stop()
	ns := testkit.Namespace(t, config)
	name := "b-" + ns
	l.applyBucket(t, ns, name, false)
	l.cluster.Await(t, bucket, ns, name, isSynced(1))
	expired.Store(true)
	l.applyBucket(t, ns, name, true)
	<-requeued
	l.annotate(t, ns, name, "crossplane.io/reconcile-requested-at", "now")
	<-requeued
	<-requeued // this reconcile began after the annotation
	o := l.cluster.Get(t, bucket, ns, name)
	if err := isSynced(2)(o); err == nil || handled(o) != "" {
		t.Errorf("the change is reported as done: %s", testkit.JSON(o))
	}
	expired.Store(false)
	o = l.cluster.Await(t, bucket, ns, name, isSynced(2))
	if r := l.onlyResource(t, name); r == nil || !r.Properties.Versioning || handled(o) != "now" {
		t.Errorf("the change is reported as done, and the bucket is %+v: %s", r, testkit.JSON(o))
	}
	l.deleteAndCheck(t, ns, name, 1)
}

// handled returns the last request for a reconcile that the status reports as handled.
func handled(o *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt")
	return at
}
