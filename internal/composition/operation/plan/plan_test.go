package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/ops/v1alpha1"
)

// at is a time of one day.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-03-10 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func running(name string) Operation { return Operation{Name: name, Created: at("09:00:00")} }

func ended(name, clock string, succeeded bool) Operation {
	return Operation{Name: name, Created: at("09:00:00"), Ended: at(clock), Succeeded: succeeded}
}

func TestNextTimeOfASchedule(t *testing.T) {
	minute := time.Minute
	for name, tc := range map[string]struct {
		schedule   string
		last, now  string
		deadline   *time.Duration
		policy     v1alpha1.ConcurrencyPolicy
		operations []Operation
		want       CronStep
	}{
		"Nothing is due before the first time": {schedule: "0 * * * *", last: "09:10:00", now: "09:50:00", want: CronStep{After: 10 * time.Minute}},
		"A time is due when it is reached":     {schedule: "0 * * * *", last: "09:10:00", now: "10:00:00", want: CronStep{Slot: at("10:00:00"), After: time.Hour}},
		"Of several times only the last is due": {
			schedule: "*/5 * * * *", last: "09:10:00", now: "09:31:00", want: CronStep{Slot: at("09:30:00"), After: 4 * time.Minute},
		},
		"What was made is not due again": {schedule: "0 * * * *", last: "10:00:00", now: "10:00:01", want: CronStep{After: time.Hour - time.Second}},
		"A rare time is found in a long gap": {
			schedule: "30 0 * * *", last: "00:00:00", now: "23:00:00", want: CronStep{Slot: at("00:30:00"), After: 90 * time.Minute},
		},
		"A time within the deadline is due": {
			schedule: "0 * * * *", last: "09:10:00", now: "10:01:00", deadline: &minute, want: CronStep{Slot: at("10:00:00"), After: 59 * time.Minute},
		},
		"A time past the deadline is left out": {schedule: "0 * * * *", last: "09:10:00", now: "10:01:01", deadline: &minute, want: CronStep{After: 59*time.Minute - time.Second}},
		"Allow runs several": {
			schedule: "0 * * * *", last: "09:10:00", now: "10:00:00", policy: v1alpha1.Allow, operations: []Operation{running("a")},
			want: CronStep{Slot: at("10:00:00"), After: time.Hour},
		},
		"Forbid waits for one that has not begun": {
			schedule: "0 * * * *", last: "09:10:00", now: "10:00:00", policy: v1alpha1.Forbid, operations: []Operation{running("a")},
			want: CronStep{After: time.Hour, Waits: "Operation a still runs"},
		},
		"Forbid goes on when that has ended": {
			schedule: "0 * * * *", last: "09:10:00", now: "10:20:00", policy: v1alpha1.Forbid, operations: []Operation{ended("a", "10:19:00", false)},
			want: CronStep{Slot: at("10:00:00"), After: 40 * time.Minute},
		},
		"Replace deletes all that run": {
			schedule: "0 * * * *", last: "09:10:00", now: "10:00:00", policy: v1alpha1.Replace, operations: []Operation{running("b"), running("a"), ended("c", "09:30:00", true)},
			want: CronStep{Slot: at("10:00:00"), Replaced: []string{"a", "b"}, After: time.Hour},
		},
		"A schedule without times": {schedule: "0 0 30 2 *", last: "09:10:00", now: "10:00:00"},
		"An interval counts from the last time": {
			schedule: "@every 90m", last: "00:10:00", now: "05:00:00", want: CronStep{Slot: at("04:40:00"), After: 70 * time.Minute},
		},
		"A time zone": {schedule: "CRON_TZ=Asia/Tokyo 0 * * * *", last: "09:10:00", now: "10:00:00", want: CronStep{Slot: at("10:00:00"), After: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			schedule, err := ParseSchedule(tc.schedule)
			if err != nil {
				t.Fatal(err)
			}
			got := Cron{Schedule: schedule, Last: at(tc.last), Now: at(tc.now), Deadline: tc.deadline, Policy: tc.policy, Operations: tc.operations}.Next()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALongGapIsNotEnumerated(t *testing.T) {
	schedule, err := ParseSchedule("* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	calls := &counting{Schedule: schedule}
	if slot := latest(calls, at("09:00:00").AddDate(-5, 0, 0), at("09:00:30")); !slot.Equal(at("09:00:00")) {
		t.Errorf("the last time is %s", slot)
	}
	if calls.n > 10 {
		t.Errorf("the schedule was asked %d times", calls.n)
	}
}

type counting struct {
	Schedule interface{ Next(time.Time) time.Time }
	n        int
}

func (c *counting) Next(t time.Time) time.Time {
	c.n++
	return c.Schedule.Next(t)
}

func TestInvalidSchedules(t *testing.T) {
	for _, text := range []string{"", "* * *", "61 * * * *", "TZ=0", "CRON_TZ=Nowhere/None * * * * *", "@sometimes"} {
		if _, err := ParseSchedule(text); err == nil {
			t.Errorf("%q is a schedule", text)
		}
	}
}

func TestExpired(t *testing.T) {
	all := []Operation{
		running("running"), ended("s1", "10:01:00", true), ended("s3", "10:03:00", true), ended("s2", "10:02:00", true),
		ended("f1", "10:01:30", false), ended("f2", "10:04:00", false),
	}
	for name, tc := range map[string]struct {
		successful, failed int
		want               []string
	}{
		"The oldest of each result go":        {2, 1, []string{"f1", "s1"}},
		"No limit reached":                    {3, 2, nil},
		"Without history only running remain": {0, 0, []string{"f1", "f2", "s1", "s2", "s3"}},
	} {
		if diff := cmp.Diff(tc.want, Expired(all, tc.successful, tc.failed)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := LastSuccess(all); !got.Equal(at("10:03:00")) {
		t.Errorf("the last success was at %s", got)
	}
}

func TestRetry(t *testing.T) {
	for name, tc := range map[string]struct {
		failures, limit int64
		permanent       bool
		after           time.Duration
		again           bool
	}{
		"The first failure":                {1, 5, false, time.Second, true},
		"The delay grows":                  {4, 5, false, 8 * time.Second, true},
		"The delay is bounded":             {80, 100, false, time.Minute, true},
		"The last failure":                 {5, 5, false, 0, false},
		"No failure is allowed":            {1, 0, false, 0, false},
		"An error of the operation itself": {1, 5, true, 0, false},
	} {
		if after, again := Retry(tc.failures, tc.limit, tc.permanent); after != tc.after || again != tc.again {
			t.Errorf("%s: %s, %t", name, after, again)
		}
	}
}

var kind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func watched(name, revision string) Object {
	return Object{Namespace: "prod", Name: name, UID: "uid-" + name, ResourceVersion: revision}
}

// of is the running operation for a state of an object.
func of(o Object) Operation { return Operation{Name: WatchName("w", kind, o), Watched: o} }

func TestChangesOfWatchedObjects(t *testing.T) {
	a, b, gone := watched("a", "12"), watched("b", "9"), watched("gone", v1alpha1.DeletedResourceVersion)
	name := func(o Object, replaced ...string) Change {
		return Change{Object: o, Operation: WatchName("w", kind, o), Replaced: replaced}
	}
	done := of(watched("a", "12"))
	done.Ended = at("10:00:00")
	for reason, tc := range map[string]struct {
		facts   Watch
		want    []Change
		waiting int
	}{
		"Nothing is newer than what was handled":  {facts: Watch{Handled: 12, Objects: []Object{a, b}}},
		"Each newer object, in the order of time": {facts: Watch{Objects: []Object{a, b}}, want: []Change{name(b), name(a)}},
		"Only what is newer":                      {facts: Watch{Handled: 9, Objects: []Object{a, b}}, want: []Change{name(a)}},
		"A deletion comes first":                  {facts: Watch{Objects: []Object{b}, Deleted: []Object{gone}}, want: []Change{name(gone), name(b)}},
		"Forbid makes one at a time":              {facts: Watch{Policy: v1alpha1.Forbid, Objects: []Object{a, b}}, want: []Change{name(b)}, waiting: 1},
		"Forbid waits for another object's operation, which has not begun": {
			facts: Watch{Policy: v1alpha1.Forbid, Handled: 9, Objects: []Object{a, b}, Operations: []Operation{of(b)}}, waiting: 1,
		},
		"Forbid makes the newest state when that has ended": {
			facts: Watch{Policy: v1alpha1.Forbid, Handled: 12, Objects: []Object{watched("a", "15")}, Operations: []Operation{done}}, want: []Change{name(watched("a", "15"))},
		},
		"Replace deletes what runs for the same object only": {
			facts: Watch{Policy: v1alpha1.Replace, Handled: 12, Objects: []Object{watched("a", "15"), b}, Operations: []Operation{of(a), of(b)}},
			want:  []Change{name(watched("a", "15"), of(a).Name)},
		},
		"An operation that exists counts as made, also under Forbid": {
			facts: Watch{Policy: v1alpha1.Forbid, Objects: []Object{b}, Operations: []Operation{of(b)}}, want: []Change{name(b)},
		},
	} {
		tc.facts.Name, tc.facts.Kind = "w", kind
		got, waiting := tc.facts.Next()
		if diff := cmp.Diff(tc.want, got); diff != "" || waiting != tc.waiting {
			t.Errorf("%s: %d wait, %s", reason, waiting, diff)
		}
	}
}

func TestAWatchOperationRunsABoundedNumber(t *testing.T) {
	facts := Watch{Name: "w", Kind: kind}
	for i := range 150 {
		facts.Objects = append(facts.Objects, Object{Name: "o", UID: string(rune('A' + i)), ResourceVersion: "1"})
	}
	changes, waiting := facts.Next()
	if len(changes) != maxRunning || waiting != 150-maxRunning {
		t.Errorf("%d operations, %d wait", len(changes), waiting)
	}
}

func TestRead(t *testing.T) {
	status := func(status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": status, "lastTransitionTime": "2026-03-10T10:00:00Z"}}}
	}
	for name, tc := range map[string]struct {
		status map[string]any
		runs   bool
		won    bool
	}{
		"Before its first reconcile it runs": {map[string]any{}, true, false},
		"It runs":                            {status("Unknown"), true, false},
		"It has succeeded":                   {status("True"), false, true},
		"It has failed":                      {status("False"), false, false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}, "status": tc.status}}
		if got := Read(o); got.runs() != tc.runs || got.Succeeded != tc.won {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
