package creation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// classes are what the cloud may be like for buckets.
var classes = map[string]cloud.Behaviour{
	"named by us":                  {},
	"named by us, slow":            {CreateTime: 300 * time.Millisecond, UpdateTime: 200 * time.Millisecond, DeleteTime: 300 * time.Millisecond},
	"named by us, shown late":      {CreateLag: 300 * time.Millisecond, DeleteLag: 300 * time.Millisecond, Tags: cloud.TagsNone},
	"named by it, with tokens":     {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: 200 * time.Millisecond, Tags: cloud.TagsShown},
	"named by it, found by a mark": {Naming: cloud.ProviderAssigned, CreateLag: 200 * time.Millisecond, DeleteLag: 200 * time.Millisecond, CreateTime: 200 * time.Millisecond},
}

// sets are those of policies that create. The first is for every day, and for all
// troubles: without LateInitialize identities have been lost elsewhere. The full sweep
// goes through the others, with some of the troubles.
var sets = [][]string{
	{"Observe", "Create", "Update", "Delete"}, {"*"}, {"Observe", "Create"}, {"Observe", "Create", "Delete"},
	{"Observe", "Create", "Update"}, {"Observe", "Create", "LateInitialize"}, {"Observe", "Create", "Update", "LateInitialize"},
	{"Observe", "Create", "Delete", "LateInitialize"}, {"Observe", "Create", "Update", "Delete", "LateInitialize"},
}

// TestSweepTheControllersDie lets a managed resource be created, changed and deleted,
// with the controllers dying after each write and before it, and with each call to
// the cloud that changes something going wrong, whether they die then or not.
func TestSweepTheControllersDie(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	lives, calls := 0, 0
	for class, behaviour := range classes {
		for i, policies := range sets[:testkit.Size(1, len(sets))] {
			t.Run(class+"/"+strings.Join(policies, ""), func(t *testing.T) {
				l := life{world: w, config: config, sky: newCloud(behaviour), policies: policies}
				one := l.live(t, trouble{name: "none"})
				all := troubles(one)
				most := testkit.Size(4, len(all))
				if i > 0 {
					most = 24
				}
				for _, trouble := range some(all, most) {
					if t.Failed() {
						break
					}
					l.live(t, trouble)
					lives++
				}
				calls += len(l.sky.Journal().Select(changing))
				t.Logf("%d writes, %d calls that change something", one.writes, len(one.calls))
			})
		}
	}
	testkit.Report(t, "creation: %d lives of a managed resource with trouble, %d calls that change something", lives, calls)
}

// troubles are what may go wrong in a life that takes so many writes and calls.
func troubles(one passed) []trouble {
	var out []trouble
	for n := 1; n <= one.writes; n++ {
		out = append(out, trouble{
			name:  fmt.Sprintf("they die after write %d", n),
			crash: func(*cloud.Faulty) *testkit.Crash { return testkit.NewCrash(n) },
		}, trouble{
			name: fmt.Sprintf("they die before write %d", n),
			crash: func(*cloud.Faulty) *testkit.Crash {
				return testkit.NewCrashBefore(func(at int) bool { return at >= n })
			},
		})
	}
	for n, verb := range one.calls {
		for what, fault := range faults {
			fault.Type, fault.Verb = cloud.TypeBucket, verb
			out = append(out,
				trouble{name: fmt.Sprintf("%s %s", what, verb), fault: &fault},
				trouble{name: fmt.Sprintf("%s %s, and they die", what, verb), fault: &fault, crash: afterCall(n + 1)})
		}
	}
	return out
}

// some are so many of them, spread over all; which ones differs from day to day no
// more than the number of writes does.
func some(all []trouble, most int) []trouble {
	if len(all) <= most {
		return all
	}
	out := make([]trouble, most)
	for i := range out {
		out[i] = all[i*len(all)/most]
	}
	return out
}

// faults are what may become of a call that changes something.
var faults = map[string]cloud.Fault{
	"the answer is lost of": {Lose: cloud.Timeout},
	"late arrives":          {Late: 400 * time.Millisecond},
	"nothing comes of":      {Refuse: cloud.Unavailable},
	"throttled is":          {Refuse: cloud.Throttled, RetryAfter: 50 * time.Millisecond},
}

// afterCall crashes before anything is noted of the n-th call that changes something.
func afterCall(n int) func(*cloud.Faulty) *testkit.Crash {
	return func(sky *cloud.Faulty) *testkit.Crash {
		before := len(sky.Journal().Select(changing))
		return testkit.NewCrashBefore(func(int) bool { return len(sky.Journal().Select(changing))-before >= n })
	}
}

// changing are the calls that were to change something.
func changing(e cloud.Entry) bool {
	return !e.OutOfBand && !e.Late && (e.Verb == cloud.VerbCreate || e.Verb == cloud.VerbUpdate || e.Verb == cloud.VerbDelete)
}

// TestSweepTheProviderDiesRightAfterCreation is the case that others have lost
// resources by: an identity that the cloud assigns, policies without LateInitialize,
// and a provider that is killed when the resource has just been made.
func TestSweepTheProviderDiesRightAfterCreation(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(classes["named by it, with tokens"]), policies: sets[0]}
	times := testkit.Size(4, 100)
	for n := range times {
		l.live(t, trouble{name: fmt.Sprintf("the %d. time", n+1), crash: afterCall(1)})
	}
	testkit.Report(t, "creation: %d times killed right after creation: %d creations had an effect", times, len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)))
}
