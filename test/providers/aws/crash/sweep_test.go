package crash

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
)

// TestSweepControllersCrashAtWrites creates, changes and deletes all members while the controllers crash again and again:
// after, or before, the n-th write since they have started, and later ones when four more processes have crashed. If all
// crashed at the first write, none would get further: before a call is repeated, the time is recorded.
//
// Only full runs have it; a part of it is run by its name, as in
// ESPALIER_TEST_FULL=1 go test -run 'TestSweepControllersCrashAtWrites/after/^1$'.
func TestSweepControllersCrashAtWrites(t *testing.T) {
	if testkit.Size(0, 1) == 0 {
		t.Skip("TestSweepControllersCrashAtEachKindOfWrite has the writes that differ; ESPALIER_TEST_FULL runs this")
	}
	p := newPlane(t)
	sweep := func(crashAt func(n int) crash) func(*testing.T) {
		return func(t *testing.T) {
			for _, n := range []int{29, 17, 11, 7, 5, 3, 2, 1} {
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					processes := 0
					next := func() crash {
						processes++
						return crashAt(n + (processes-1)/4)
					}
					out := round{plane: p, name: t.Name(), crashes: next}.run(t)
					testkit.Report(t, "aws: %d crashes at %d writes in the life of %d types (%s)", out.crashes, out.writes, len(members), t.Name())
				})
			}
		}
	}
	t.Run("after", sweep(func(n int) crash { return testkit.NewCrash(n) }))
	t.Run("before", sweep(func(n int) crash {
		return testkit.NewCrashBefore(func(at int, _ *http.Request) bool { return at > n })
	}))
}

// faults are what happens to the first call of each verb and type.
var faults = []struct {
	name   string
	fault  awscloud.Fault
	repeat awscloud.Repeat
	// ignoresTokens: the provider knows that tokens are forgotten.
	ignoresTokens, crash bool
}{
	{name: "lost answers, the same event", fault: awscloud.Fault{LoseAnswer: true}},
	{name: "lost answers, a conflict, crashes", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatConflicts, crash: true},
	{name: "lost answers, a conflict that names the request", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatNamesRequest},
	{name: "lost answers, tokens forgotten", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatBegins, ignoresTokens: true},
	{name: "requests that fail and leave their effect", fault: awscloud.Fault{Outcome: &awscloud.Outcome{Code: "NotStabilized", Message: "it takes too long", Effect: true}}},
	{name: "lost requests, a conflict", fault: awscloud.Fault{LoseRequest: true}, repeat: awscloud.RepeatConflicts},
	{name: "throttling, crashes", fault: awscloud.Fault{Error: awscloud.Throttling, Times: 2}, crash: true},

	{name: "lost answers, crashes, the same event", fault: awscloud.Fault{LoseAnswer: true}, crash: true},
	{name: "lost answers, a conflict", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatConflicts},
	{name: "lost answers, crashes, a conflict that names the request", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatNamesRequest, crash: true},
	{name: "lost answers, crashes, tokens forgotten", fault: awscloud.Fault{LoseAnswer: true}, repeat: awscloud.RepeatBegins, ignoresTokens: true, crash: true},
	{name: "lost requests, crashes", fault: awscloud.Fault{LoseRequest: true}, crash: true},
	{name: "internal errors", fault: awscloud.Fault{Error: awscloud.Internal}},
	{name: "unavailable, crashes", fault: awscloud.Fault{Error: awscloud.Unavailable}, crash: true},
	{name: "throttling as a general error", fault: awscloud.Fault{Error: awscloud.ThrottlingAsGeneral}},
	{name: "delays, crashes", fault: awscloud.Fault{Delay: 300 * time.Millisecond}, crash: true},
	{name: "requests that fail and leave their effect, crashes", fault: awscloud.Fault{Outcome: &awscloud.Outcome{Code: "NotStabilized", Message: "it takes too long", Effect: true}}, crash: true},
	{name: "requests that fail without an identifier and leave their effect", fault: awscloud.Fault{Outcome: &awscloud.Outcome{Code: "InternalFailure", Message: "failure", Effect: true, HideIdentifier: true}}},
	{name: "requests that fail without an effect", fault: awscloud.Fault{Outcome: &awscloud.Outcome{Code: "ServiceInternalError", Message: "failure"}}},
}

// TestSweepCallsFail creates, changes and deletes all members while calls of each verb and type fail.
func TestSweepCallsFail(t *testing.T) {
	p := newPlane(t)
	ran := 0
	for _, f := range faults[:testkit.Size(3, len(faults))] {
		t.Run(f.name, func(t *testing.T) {
			ran++
			own := *p
			own.options.IgnoresTokens = f.ignoresTokens
			r := round{plane: &own, name: f.name, fault: &f.fault, repeat: f.repeat}
			if f.crash {
				r.crashes = afterCalls()
			}
			r.run(t)
			if left := cloud.Faults(); left > 0 && !t.Failed() {
				t.Errorf("%d faults never happened", left)
			}
		})
	}
	testkit.Report(t, "aws: %d kinds of failures in each verb of the life of %d types", ran, len(members))
}

// afterCalls returns crashes of one process after the other. Each is after some calls that change something, before the
// write that follows. There are more calls before the later ones: otherwise, as many objects could call at the same time
// again and again, and no process would ever record an answer.
func afterCalls() func() crash {
	processes := 0
	return func() crash {
		before, calls := changes(), 3+processes/3
		processes++
		return testkit.NewCrashBefore(func(int, *http.Request) bool { return changes()-before >= calls })
	}
}

// changes is the number of calls that change something.
func changes() int {
	return cloud.Count(awscloud.CreateResource, "") + cloud.Count(awscloud.UpdateResource, "") + cloud.Count(awscloud.DeleteResource, "")
}
