package creation

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// classes are behaviours of external APIs.
var classes = map[string]cloud.Behaviour{
	"named by the client":                {},
	"named by the client, slow":          {CreateTime: 300 * time.Millisecond, UpdateTime: 200 * time.Millisecond, DeleteTime: 300 * time.Millisecond},
	"named by the client, shown late":    {CreateLag: 300 * time.Millisecond, DeleteLag: 300 * time.Millisecond, Tags: cloud.TagsNone},
	"named by the cloud, with tokens":    {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: 200 * time.Millisecond, Tags: cloud.TagsShown},
	"named by the cloud, found by a tag": {Naming: cloud.ProviderAssigned, CreateLag: 200 * time.Millisecond, DeleteLag: 200 * time.Millisecond, CreateTime: 200 * time.Millisecond},
}

// sets are the sets of management policies with Create. The first runs always, with all failures:
// without LateInitialize, other providers have lost identities. The full sweep also runs the others,
// with some of the failures.
var sets = [][]string{
	{"Observe", "Create", "Update", "Delete"}, {"*"}, {"Observe", "Create"}, {"Observe", "Create", "Delete"},
	{"Observe", "Create", "Update"}, {"Observe", "Create", "LateInitialize"}, {"Observe", "Create", "Update", "LateInitialize"},
	{"Observe", "Create", "Delete", "LateInitialize"}, {"Observe", "Create", "Update", "Delete", "LateInitialize"},
}

// TestSweepControllersCrashAtEveryWrite creates, changes and deletes a managed resource, with a crash of
// the controllers before and after each write, and with each call that changes something failing, with
// and without a crash.
func TestSweepControllersCrashAtEveryWrite(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	runs, calls := 0, 0
	for class, behaviour := range classes {
		for i, policies := range sets[:testkit.Size(1, len(sets))] {
			t.Run(class+"/"+strings.Join(policies, ""), func(t *testing.T) {
				l := lifecycle{cluster: w, config: config, cloud: newCloud(behaviour), policies: policies}
				without := l.exercise(t, failure{name: "none"})
				all := failures(without)
				most := testkit.Size(4, len(all))
				if i > 0 {
					most = 24
				}
				for _, failure := range spread(all, most) {
					if t.Failed() {
						break
					}
					l.exercise(t, failure)
					runs++
				}
				calls += len(l.cloud.Journal().Select(changing))
				t.Logf("%d writes, %d calls that change something", without.writes, len(without.calls))
			})
		}
	}
	testkit.Report(t, "creation: %d lifecycles of a managed resource with a failure, %d calls that change something", runs, calls)
}

// failures are those that a lifecycle with such a trace can meet.
func failures(of trace) []failure {
	var out []failure
	for n := 1; n <= of.writes; n++ {
		out = append(out, failure{
			name:  fmt.Sprintf("crash after write %d", n),
			crash: func(*cloud.Faulty) *testkit.Crash { return testkit.NewCrash(n) },
		}, failure{
			name: fmt.Sprintf("crash before write %d", n),
			crash: func(*cloud.Faulty) *testkit.Crash {
				return testkit.NewCrashBefore(func(at int, _ *http.Request) bool { return at >= n })
			},
		})
	}
	for n, verb := range of.calls {
		for what, fault := range faults {
			fault.Type, fault.Verb = cloud.TypeBucket, verb
			out = append(out,
				failure{name: fmt.Sprintf("%s of %s", what, verb), fault: &fault},
				failure{name: fmt.Sprintf("%s of %s, and a crash", what, verb), fault: &fault, crash: afterCall(n + 1)})
		}
	}
	return out
}

// spread returns so many failures, spread evenly over all.
func spread(all []failure, most int) []failure {
	if len(all) <= most {
		return all
	}
	out := make([]failure, most)
	for i := range out {
		out[i] = all[i*len(all)/most]
	}
	return out
}

// faults are those of calls that change something.
var faults = map[string]cloud.Fault{
	"lost response": {Lose: cloud.Timeout},
	"late arrival":  {Late: 400 * time.Millisecond},
	"refusal":       {Refuse: cloud.Unavailable},
	"throttling":    {Refuse: cloud.Throttled, RetryAfter: 50 * time.Millisecond},
}

// afterCall crashes after the n-th call that changes something, before the next write.
func afterCall(n int) func(*cloud.Faulty) *testkit.Crash {
	return func(fakeCloud *cloud.Faulty) *testkit.Crash {
		before := len(fakeCloud.Journal().Select(changing))
		return testkit.NewCrashBefore(func(int, *http.Request) bool { return len(fakeCloud.Journal().Select(changing))-before >= n })
	}
}

// changing selects the calls that are meant to change something.
func changing(e cloud.Entry) bool {
	return !e.OutOfBand && !e.Late && (e.Verb == cloud.VerbCreate || e.Verb == cloud.VerbUpdate || e.Verb == cloud.VerbDelete)
}

// TestSweepTheProviderCrashesRightAfterCreation is the case in which other providers have lost
// resources: the cloud assigns the identity, the policies lack LateInitialize, and the provider
// crashes when the resource has just been created.
func TestSweepTheProviderCrashesRightAfterCreation(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(classes["named by the cloud, with tokens"]), policies: sets[0]}
	times := testkit.Size(4, 100)
	for n := range times {
		l.exercise(t, failure{name: fmt.Sprintf("crash %d", n+1), crash: afterCall(1)})
	}
	testkit.Report(t, "creation: %d crashes right after the creation: %d creations had an effect", times, len(l.cloud.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)))
}
