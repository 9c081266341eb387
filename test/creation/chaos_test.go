package creation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestSweepACloudWithRandomFaults creates, changes and deletes many buckets concurrently in a cloud
// that randomly throttles, is unavailable, loses responses, delays calls and breaks operations,
// while the controllers crash about every second.
func TestSweepACloudWithRandomFaults(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	many := testkit.Size(3, 60)
	seed := uint64(time.Now().UnixNano())
	for class, behaviour := range classes {
		t.Run(class, func(t *testing.T) {
			seed++
			t.Logf("seed %d", seed)
			l := lifecycle{cluster: w, config: config, cloud: newCloud(behaviour), policies: sets[0]}
			l.cloud.SetChance(randomFaults(seed))
			stop := l.runCrashing(t, seed)
			ns := testkit.Namespace(t, config)
			for i := range many {
				l.applyBucket(t, ns, nameOf(i, ns), false)
			}
			for i := range many {
				w.Await(t, bucket, ns, nameOf(i, ns), isBound)
				l.applyBucket(t, ns, nameOf(i, ns), true)
			}
			for i := range many {
				w.Await(t, bucket, ns, nameOf(i, ns), isSynced(2))
				if r := l.onlyResource(t, nameOf(i, ns)); r == nil || !r.Properties.Versioning {
					t.Errorf("the bucket of %s is %+v", nameOf(i, ns), r)
				}
			}
			if err := w.Resource(t, bucket, ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			for i := range many {
				w.AwaitGone(t, bucket, ns, nameOf(i, ns))
			}
			crashes := stop()
			if all := l.cloud.Admin().Resources(); len(all) > 0 {
				t.Errorf("%d buckets remain", len(all))
			}
			calls := l.cloud.Journal().Select(changing)
			testkit.Report(t, "creation: %d buckets in a cloud with random faults, %s: %d calls that change something, %d faults, %d crashes of the controllers", many, strings.ReplaceAll(class, ",", ""), len(calls), l.cloud.Hits(), crashes)
			if len(calls) > 12*many {
				t.Errorf("%d calls for %d buckets", len(calls), many)
			}
		})
	}
}

// randomFaults throttles or refuses one call in twenty each, and loses the response of one in ten; of
// the calls that change something, one in twenty each is delayed, and fails half way.
func randomFaults(seed uint64) func() cloud.Fault {
	const delay = 300 * time.Millisecond
	random := rand.New(rand.NewPCG(seed, 0))
	return func() cloud.Fault {
		switch p := random.IntN(100); {
		case p < 5:
			return cloud.Fault{Refuse: cloud.Throttled, RetryAfter: delay}
		case p < 10:
			return cloud.Fault{Refuse: cloud.Unavailable}
		case p < 20:
			return cloud.Fault{Lose: cloud.Timeout}
		case p < 25:
			return cloud.Fault{Late: 1 + time.Duration(random.Float64()*float64(delay))}
		case p < 30:
			return cloud.Fault{Break: true}
		default:
			return cloud.Fault{}
		}
	}
}

func nameOf(i int, ns string) string { return fmt.Sprintf("b%d-%s", i, ns) }

// runCrashing runs controllers that crash repeatedly, until stop is called, which returns the number
// of crashes.
func (l lifecycle) runCrashing(t *testing.T, seed uint64) (stop func() int) {
	t.Helper()
	over, ended := make(chan struct{}), make(chan int)
	go func() {
		crashes := 0
		random := rand.New(rand.NewPCG(seed, 1))
		for {
			crash := testkit.NewCrash(0)
			if crashes < 20 {
				crash = testkit.NewCrash(1 + random.IntN(40))
			}
			stop := run(t, crash.Wrap(l.config), l.cloud)
			select {
			case <-crash.Crashed():
				crashes++
				stop()
			case <-over:
				stop()
				ended <- crashes
				return
			}
		}
	}()
	return func() int {
		close(over)
		return <-ended
	}
}
