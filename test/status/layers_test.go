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

// ways are how long values took upwards, by the kinds of both layers.
type ways struct {
	mu   sync.Mutex
	took map[[2]schema.GroupKind][]time.Duration
}

var upward ways

func (w *ways) note(below, above schema.GroupKind, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.took == nil {
		w.took = map[[2]schema.GroupKind][]time.Duration{}
	}
	w.took[[2]schema.GroupKind{below, above}] = append(w.took[[2]schema.GroupKind{below, above}], took)
}

func (w *ways) of(below, above schema.GroupVersionKind) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took[[2]schema.GroupKind{below.GroupKind(), above.GroupKind()}]
}

func TestItIsMeasuredHowLongValuesTakeUpwards(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.SubnetKind+"---"+low+"---"+middle+"---"+top(""))
	s.Put(t, bothInstance)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Both"), s.NS, "x", all(testkit.IsReady, field("subnet-1", "status", "subnet")))
	began, changes := time.Now(), 1
	for _, below := range []string{"Vpc", "Eks"} {
		// A value that is seen above before the answer to its write is here isn't measured, so that one may not do.
		testkit.Poll(t, "the way from "+below+" is measured", func() bool {
			if len(upward.of(s.Kind(below), s.Kind("Both"))) > 0 {
				return true
			}
			changes++
			value := fmt.Sprintf("subnet-%d", changes)
			s.SetSubnet(t, value)
			s.Await(t, s.Kind("Both"), s.NS, "x", all(testkit.IsReady, field(value, "status", "subnet")))
			return false
		})
		for _, took := range upward.of(s.Kind(below), s.Kind("Both")) {
			if took < 0 || took > time.Since(began)+testkit.Patience {
				t.Errorf("from %s a value took %s", below, took)
			}
		}
	}
	if more := upward.of(s.Kind("Subnet"), s.Kind("Vpc")); len(more) > 0 {
		t.Errorf("what others write is measured: %v", more)
	}
}
