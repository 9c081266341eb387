package external

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
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	many := testkit.Size(3, 60)
	seed := uint64(time.Now().UnixNano())
	for class, behaviour := range classes {
		t.Run(class, func(t *testing.T) {
			seed++
			t.Logf("seed %d", seed)
			l := life{world: w, config: config, sky: open(t, behaviour), policies: sets[0]}
			defer l.sky.Close()
			chaos := cloud.Chaos{Seed: seed, Throttle: 0.05, Refuse: 0.05, Lose: 0.1, Late: 0.05, Break: 0.05, Delay: 300 * time.Millisecond}
			if err := l.sky.SetChaos(chaos); err != nil {
				t.Fatal(err)
			}
			deaths := l.haunted(t, seed)
			ns := testkit.Namespace(t, config)
			for i := range many {
				l.put(t, ns, nameOf(i, ns), false)
			}
			for i := range many {
				w.Await(t, bucket, ns, nameOf(i, ns), bound)
				l.put(t, ns, nameOf(i, ns), true)
			}
			for i := range many {
				w.Await(t, bucket, ns, nameOf(i, ns), synced(2))
				if r := l.only(t, nameOf(i, ns)); r == nil || !r.Properties.(cloud.Bucket).Versioning {
					t.Errorf("of %s there is %+v", nameOf(i, ns), r)
				}
			}
			if err := w.Of(t, bucket, ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			for i := range many {
				w.AwaitGone(t, bucket, ns, nameOf(i, ns))
			}
			died := deaths()
			if all, err := l.sky.Admin().Snapshot(); err != nil || len(all.Resources) > 0 {
				t.Errorf("%d are left over (%v)", len(all.Resources), err)
			}
			calls := l.sky.Journal().Select(changing)
			failed := 0
			for _, e := range calls {
				if e.Code != "" {
					failed++
				}
			}
			testkit.Say(t, "external: %d buckets of a cloud full of trouble, %s: %d calls that change something, %d of them went wrong, and the controllers died %d times", many, strings.ReplaceAll(class, ",", ""), len(calls), failed, died)
			if len(calls) > 12*many {
				t.Errorf("%d calls for %d buckets", len(calls), many)
			}
		})
	}
}

func nameOf(i int, ns string) string { return fmt.Sprintf("b%d-%s", i, ns) }

// haunted runs controllers that die again and again, until it is ended: that tells
// how often they have.
func (l life) haunted(t *testing.T, seed uint64) (end func() int) {
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
