package status

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// latencies are the times that values took to reach the layer above, by the kinds of both.
type latencies struct {
	mu   sync.Mutex
	took map[[2]schema.GroupKind][]time.Duration
}

var propagation latencies

func (w *latencies) note(below, above schema.GroupKind, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.took == nil {
		w.took = map[[2]schema.GroupKind][]time.Duration{}
	}
	w.took[[2]schema.GroupKind{below, above}] = append(w.took[[2]schema.GroupKind{below, above}], took)
}

func (w *latencies) of(below, above schema.GroupVersionKind) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took[[2]schema.GroupKind{below.GroupKind(), above.GroupKind()}]
}

func TestStatusPropagationIsMeasured(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD+"---"+low+"---"+middle+"---"+top(""))
	s.Apply(t, bothInstance)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("subnet-1", "status", "subnet")))
	began, changes := time.Now(), 1
	for _, below := range []string{"Vpc", "Eks"} {
		// A value that is seen above before the answer to its write is here is not measured, so that one may not do.
		testkit.Poll(t, "the way from "+below+" is measured", func() bool {
			if len(propagation.of(s.Kind(below), s.Kind("Both"))) > 0 {
				return true
			}
			changes++
			value := fmt.Sprintf("subnet-%d", changes)
			s.SetSubnet(t, value)
			s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField(value, "status", "subnet")))
			return false
		})
		for _, took := range propagation.of(s.Kind(below), s.Kind("Both")) {
			if took < 0 || took > time.Since(began)+testkit.Timeout {
				t.Errorf("from %s a value took %s", below, took)
			}
		}
	}
	if more := propagation.of(s.Kind("Subnet"), s.Kind("Vpc")); len(more) > 0 {
		t.Errorf("what others write is measured: %v", more)
	}
}
