package crash

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/awscloud"
)

// TestSweepControllersCrashAtWrites creates, changes and deletes all members while the controllers crash
// again and again: after, or before, each n-th write since they have started.
func TestSweepControllersCrashAtWrites(t *testing.T) {
	p := newPlane(t)
	points := map[string]int{}
	crashes := 0
	for _, n := range []int{29, 17, 11, 7, 5, 3, 2, 1}[:testkit.Size(1, 8)] {
		for _, before := range []bool{false, true} {
			next := func() *testkit.Crash { return testkit.NewCrash(n) }
			if before {
				next = func() *testkit.Crash {
					return testkit.NewCrashBefore(func(at int, _ *http.Request) bool { return at > n })
				}
			}
			name := fmt.Sprintf("crashes at each %d. write, before it: %t", n, before)
			out := round{plane: p, name: name, crashes: next}.run(t)
			crashes += len(out.at)
			for _, at := range out.at {
				points[place(at)]++
			}
			if t.Failed() {
				return
			}
		}
	}
	testkit.Report(t, "aws: %d crashes at writes in the life of %d types: %v", crashes, len(members), points)
}

// place is a write without names.
func place(write string) string {
	parts := strings.Split(write, "/")
	at := slices.IndexFunc(parts, func(s string) bool { return strings.HasSuffix(s, "espalier.dev") })
	if at < 0 || len(parts) < at+3 {
		return write
	}
	kind := parts[at+2]
	if kind == "namespaces" && len(parts) > at+4 {
		kind = parts[at+4]
	}
	if strings.HasSuffix(write, "/status") {
		kind += "/status"
	}
	return parts[0][:strings.Index(parts[0], " ")] + " " + kind
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
	n := testkit.Size(3, len(faults))
	for _, f := range faults[:n] {
		t.Run(f.name, func(t *testing.T) {
			own := *p
			own.options.IgnoresTokens = f.ignoresTokens
			r := round{plane: &own, name: f.name, fault: &f.fault, repeat: f.repeat}
			if f.crash {
				r.crashes = afterCall
			}
			r.run(t)
			if left := cloud.Faults(); left > 0 && !t.Failed() {
				t.Errorf("%d faults never happened", left)
			}
		})
	}
	testkit.Report(t, "aws: %d kinds of failures in each verb of the life of %d types", n, len(members))
}

// afterCall crashes after the next calls that change something, before the write that follows.
func afterCall() *testkit.Crash {
	before := changes()
	return testkit.NewCrashBefore(func(int, *http.Request) bool { return changes()-before >= 3 })
}

// changes is the number of calls that change something.
func changes() int {
	return cloud.Count(awscloud.CreateResource, "") + cloud.Count(awscloud.UpdateResource, "") + cloud.Count(awscloud.DeleteResource, "")
}
