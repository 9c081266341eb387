package creation

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestNothingIsReportedWithoutLeadership changes what is wanted while the
// lease is about to end, because the last renewal takes its time, say: no call may be
// begun, and so nobody is reported that the change has been seen to.
func TestNothingIsReportedWithoutLeadership(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(cloud.Behaviour{}), policies: sets[0]}
	var over atomic.Bool
	rested := make(chan struct{})
	stop := runWith(t, server.Options{
		Config: config,
		Until: func() time.Time {
			if over.Load() {
				return time.Now()
			}
			return time.Time{}
		},
		Observe: func(p reconcile.Run) {
			if over.Load() && p.Key.Kind == bucket.Kind && p.RequeueAfter > 0 && p.RequeueAfter < time.Second {
				select {
				case rested <- struct{}{}:
				default:
				}
			}
		},
	}, l.sky)
	defer stop()
	ns := testkit.Namespace(t, config)
	name := "b-" + ns
	l.applyBucket(t, ns, name, false)
	l.world.Await(t, bucket, ns, name, isSynced(1))
	over.Store(true)
	l.applyBucket(t, ns, name, true)
	<-rested
	l.annotate(t, ns, name, "crossplane.io/reconcile-requested-at", "now")
	<-rested
	<-rested // that one began after the annotation
	o := l.world.Get(t, bucket, ns, name)
	if err := isSynced(2)(o); err == nil || handled(o) != "" {
		t.Errorf("it is said to be seen to: %s", testkit.JSON(o))
	}
	over.Store(false)
	o = l.world.Await(t, bucket, ns, name, isSynced(2))
	if r := l.onlyResource(t, name); r == nil || !r.Properties.Versioning || handled(o) != "now" {
		t.Errorf("it is said to be seen to, and there is %+v: %s", r, testkit.JSON(o))
	}
	l.deleteAndCheck(t, ns, name, 1)
}

func handled(o *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt")
	return at
}
