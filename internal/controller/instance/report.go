package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// report writes the instance's status, if it says anything new, tells of
// transitions as events, and says when to look again. The lease is committed
// first: what this pass has read stays watched.
func (r *Reconciler) report(ctx context.Context, v *visit) outcome.Outcome {
	v.lease.Commit()
	summary := plan.Summarize(v.plan, v.facts.Now)
	if v.claiming.Reason != "" {
		summary = summary.Without(v.claiming)
	}
	before, state := condition.Read(v.instance), report.StateOf(v.instance)
	at := Moment{v.facts.Now, v.instance.GetGeneration()}
	was := before
	if v.desired.Author != nil {
		was = v.memory.own // the status holds the author's
	}
	conditions := r.Dialect.Live(was, v.desired, summary, at)
	shown := v.authored(before, conditions, &summary, at)
	said := report.Status{
		State: r.Dialect.State(summary.State), Conditions: shown, Waiting: waiting(summary.Waits, v.facts.Now),
		Pruning: v.pruning, Skipped: skipped(v.plan.Steps), Problems: v.problems(),
	}
	revision := v.instance.GetResourceVersion()
	if out := r.writeStatus(ctx, v, said.Render(v.desired.Status, v.composer.Room())); out.Settled() {
		if out.Err != nil {
			r.untold(v, out.Err)
			return outcome.Fail(errors.Join(append(v.failures, out.Err)...))
		}
		return out
	}
	r.stood(v, conditions, shown)
	r.takeUp(v, v.instance.GetResourceVersion() != revision)
	if len(v.facts.Unread) == 0 {
		v.memory.forgetGone(v.facts.Owned)
	}
	v.memory.tell(logr.FromContextOrDiscard(ctx), summary.Waits, v.facts.Now)
	r.resumed(v, state)
	r.announce(v, was, conditions)
	r.announceDrift(v, was, conditions)
	r.relay(v, before)
	if err := errors.Join(append(v.failures, v.lookup)...); err != nil {
		return outcome.Fail(err)
	}
	return later(soonest(v.again, v.retry, summary.Retry, v.desired.Again))
}

// soonest is the shortest of the delays; 0 is none.
func soonest(delays ...time.Duration) time.Duration {
	var out time.Duration
	for _, d := range delays {
		if d > 0 && (out == 0 || d < out) {
			out = d
		}
	}
	return out
}

// mostCuts is how often a status that came back without some of its fields is
// written again before that is taken for what the schema wants.
const mostCuts = 3

func waiting(waits []plan.Wait, now time.Time) []report.Waiting {
	out := make([]report.Waiting, len(waits))
	for i, w := range waits {
		out[i] = report.Waiting{Node: w.Node, Reason: string(w.Reason), On: w.On, Since: report.At(w.Since), Attempts: int64(w.Attempts(now))}
	}
	return out
}

// problems are why nodes aren't as they should be, with the times that the status or, where
// that has no room for them, the memory has of them.
func (v *visit) problems() []report.Problem {
	known := v.memory.problems
	if len(known) == 0 {
		known = report.ReadProblems(v.instance)
	}
	v.memory.problems = plan.Problems(v.plan.Steps, known, v.facts.Now)
	return v.memory.problems
}

// mostSkipped bounds the resources that are told to be left out.
const mostSkipped = 50

func skipped(steps []plan.Step) []report.Skipped {
	var out []report.Skipped
	for _, step := range steps {
		if l := step.LeftOut; l != nil && len(out) < mostSkipped {
			out = append(out, report.Skipped{Node: step.Node, By: l.By, Condition: l.Condition, Inputs: l.Inputs})
		}
	}
	return out
}

// writeStatus writes a status that says something new. It settles the pass when
// the write could not be made.
func (r *Reconciler) writeStatus(ctx context.Context, v *visit, status map[string]any) outcome.Outcome {
	current, _, _ := unstructured.NestedFieldNoCopy(v.instance.Object, "status")
	if same(current, status) {
		return outcome.Outcome{}
	}
	wanted := object.Digest(status)
	if v.memory.wrote == wanted && v.memory.shown == object.Digest(current) {
		return outcome.Outcome{} // as written before, as far as the schema lets it
	}
	answer, err := r.write(v, v.instance, func() (*unstructured.Unstructured, error) {
		return r.Cluster.WriteStatus(ctx, v.instance, status, v1alpha1.StatusManager)
	})
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	if err != nil {
		// The author's fields may come from a Secret.
		return outcome.Fail(fmt.Errorf("write status: %w", cluster.Quiet(err)))
	}
	v.memory.refusals.Granted(telemetry.FailedStatusUpdate)
	v.memory.wrote, v.memory.shown = wanted, object.Digest(answer.Object["status"])
	if v.memory.shown != wanted && v.memory.cut < mostCuts {
		// A schema that was just changed takes the API server a moment to use.
		v.memory.cut++
		v.memory.wrote = ""
		v.again = time.Second << (2 * v.memory.cut)
	}
	v.see(answer)
	r.wroteStatus(v)
	return outcome.Outcome{}
}

// untold tells, as an event, that the status can't be written, if that isn't for a moment
// only.
func (r *Reconciler) untold(v *visit, err error) {
	if cluster.IsLasting(err) {
		v.memory.refusals.Refused(r.Events, v.instance, telemetry.FailedStatusUpdate, "the status doesn't tell how the instance is: "+err.Error())
	}
}

// same compares as JSON: 3 and 3.0 are one number to the server.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// relay passes on what the author has people told, each once for as long as it is said.
// After a restart, what is said of an instance that has been told of before isn't news.
func (r *Reconciler) relay(v *visit, before condition.Set) {
	ready, _ := before.Get(v1alpha1.InstanceReady)
	known := v.memory.said == nil && ready.ObservedGeneration == v.instance.GetGeneration()
	said := make(map[plan.Result]bool, len(v.desired.Results))
	for _, result := range v.desired.Results {
		if !known && !said[result] && !v.memory.said[result] {
			r.tell(v, result)
		}
		said[result] = true
	}
	v.memory.said = said
}

func (r *Reconciler) tell(v *visit, result plan.Result) {
	severity := telemetry.Normal
	if result.Warning {
		severity = telemetry.Warning
	}
	r.Events.Event(v.instance, severity, result.Reason, result.Message)
	key, version, claimed := inventory.ClaimedBy(v.instance)
	if !claimed || !result.Claim {
		return
	}
	if claim, there := r.Hub.Served(key.GroupKind().WithVersion(version), key.Namespace, key.Name); there {
		r.Events.Event(claim, severity, result.Reason, result.Message)
	}
}

// announce tells of transitions that somebody may have to act on, and of their
// end. What only repeats is not told again.
func (r *Reconciler) announce(v *visit, before, after condition.Set) {
	was, _ := r.Dialect.Trouble(before)
	is, message := r.Dialect.Trouble(after)
	switch {
	case is != "" && is != was:
		v.memory.alarmed = true
		r.Events.Event(v.instance, telemetry.Warning, is, message)
	case is == "" && v.memory.alarmed && after.IsTrue(v1alpha1.InstanceReady):
		v.memory.alarmed = false
		r.Events.Event(v.instance, telemetry.Normal, "Ready", "all resources are there and ready again")
	}
}

// announceDrift tells of fields that others have changed and that are left so, when there
// are some, when they are others, and when there are none any more.
func (r *Reconciler) announceDrift(v *visit, before, after condition.Set) {
	was, told := before.Get(v1alpha1.InstanceDrifted)
	is, drifted := after.Get(v1alpha1.InstanceDrifted)
	switch {
	case drifted && was.Message != is.Message:
		r.Events.Event(v.instance, telemetry.Warning, DriftDetected, is.Message)
	case told && !drifted:
		r.Events.Event(v.instance, telemetry.Normal, "DriftEnded", "all fields are as they are wanted again")
	}
}
