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

// TestSweepACloudFullOfTrouble has many buckets made, changed and deleted side by
// side in a cloud that throttles, is unavailable, loses answers, lets calls arrive
// late and breaks operations, by chance; and the controllers die every second or so.
func TestSweepACloudFullOfTrouble(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	many := testkit.Size(3, 60)
	seed := uint64(time.Now().UnixNano())
	for class, behaviour := range classes {
		t.Run(class, func(t *testing.T) {
			seed++
			t.Logf("seed %d", seed)
			l := life{world: w, config: config, sky: newCloud(behaviour), policies: sets[0]}
			l.sky.SetChance(chance(seed))
			deaths := l.runCrashing(t, seed)
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
					t.Errorf("of %s there is %+v", nameOf(i, ns), r)
				}
			}
			if err := w.Resource(t, bucket, ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			for i := range many {
				w.AwaitGone(t, bucket, ns, nameOf(i, ns))
			}
			died := deaths()
			if all := l.sky.Admin().Resources(); len(all) > 0 {
				t.Errorf("%d are left over", len(all))
			}
			calls := l.sky.Journal().Select(changing)
			testkit.Report(t, "creation: %d buckets of a cloud full of trouble, %s: %d calls that change something, %d faults, and the controllers died %d times", many, strings.ReplaceAll(class, ",", ""), len(calls), l.sky.Hits(), died)
			if len(calls) > 12*many {
				t.Errorf("%d calls for %d buckets", len(calls), many)
			}
		})
	}
}

// chance throttles or refuses one call in twenty each, and loses the answer of one in ten;
// of those that change something one in twenty each arrives late, and fails half way.
func chance(seed uint64) func() cloud.Fault {
	const delay = 300 * time.Millisecond
	luck := rand.New(rand.NewPCG(seed, 0))
	return func() cloud.Fault {
		switch p := luck.IntN(100); {
		case p < 5:
			return cloud.Fault{Refuse: cloud.Throttled, RetryAfter: delay}
		case p < 10:
			return cloud.Fault{Refuse: cloud.Unavailable}
		case p < 20:
			return cloud.Fault{Lose: cloud.Timeout}
		case p < 25:
			return cloud.Fault{Late: 1 + time.Duration(luck.Float64()*float64(delay))}
		case p < 30:
			return cloud.Fault{Break: true}
		default:
			return cloud.Fault{}
		}
	}
}

func nameOf(i int, ns string) string { return fmt.Sprintf("b%d-%s", i, ns) }

// runCrashing runs controllers that crash repeatedly, until end, which returns the number of
// crashes.
func (l life) runCrashing(t *testing.T, seed uint64) (end func() int) {
	t.Helper()
	over, ended := make(chan struct{}), make(chan int)
	go func() {
		died := 0
		luck := rand.New(rand.NewPCG(seed, 1))
		for {
			crash := testkit.NewCrash(0)
			if died < 20 {
				crash = testkit.NewCrash(1 + luck.IntN(40))
			}
			stop := run(t, crash.Wrap(l.config), l.sky)
			select {
			case <-crash.Crashed():
				died++
				stop()
			case <-over:
				stop()
				ended <- died
				return
			}
		}
	}()
	return func() int {
		close(over)
		return <-ended
	}
}
