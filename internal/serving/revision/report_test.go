package revision

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/shard"
)

// allSlots are those of a replica that is alone.
var allSlots = shard.NewView("a").Assign().Of("a")

// TestReportsSayWhatOneReplicaWouldKnow spreads instances over replicas. From their reports, the one that advances the
// rollout counts the same as if it had reconciled all.
func TestReportsSayWhatOneReplicaWouldKnow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		written := &v1alpha1.RolloutStatus{Revision: 2, Begun: []v1alpha1.BegunWave{{Percent: ptr.To[int32](rapid.Int32Range(1, 100).Draw(t, "percent"))}}}
		if b := &written.Begun[0]; b.Percent != nil {
			b.Below = hashSpace / 100 * int64(*b.Percent)
		}
		var all []Member
		for i := range rapid.IntRange(0, 60).Draw(t, "instances") {
			m := Member{Namespace: fmt.Sprintf("ns-%d", i), Name: "x", Pinned: rapid.IntRange(0, 9).Draw(t, "pinned") == 0, Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0}
			m.Revision = rapid.Int64Range(1, 2).Draw(t, "revision")
			if m.Ready = rapid.Bool().Draw(t, "ready"); !m.Ready {
				m.Reason = "NotReady"
			}
			all = append(all, m)
		}
		want := written.DeepCopy()
		wantUnready := countMembers(want, all)

		assigned := shard.NewView("a", "b", "c").Assign()
		known := make([]Member, len(all)) // to replica a
		for i, m := range all {
			if assigned.Owner(shard.SlotOf(m.Namespace, m.Name)) != "a" {
				m.Revision, m.Ready, m.Reason = 0, false, ""
			}
			known[i] = m
		}
		for _, other := range []string{"b", "c"} {
			raw, err := json.Marshal(ReportOf(written, all, assigned.Of(other)))
			if err != nil {
				t.Fatal(err)
			}
			var report Report
			if err := json.Unmarshal(raw, &report); err != nil {
				t.Fatal(err)
			}
			report.Complete(written, known)
		}
		got := written.DeepCopy()
		gotUnready := countMembers(got, known)
		if len(gotUnready) != len(wantUnready) || got.Updated != want.Updated || got.Ready != want.Ready || got.Total != want.Total || got.Pinned != want.Pinned {
			t.Errorf("counts %d unready, %d updated, %d ready of %d; want %d, %d, %d of %d", len(gotUnready), got.Updated, got.Ready, got.Total, len(wantUnready), want.Updated, want.Ready, want.Total)
		}
		if len(wantUnready) <= maxUnready {
			if diff := cmp.Diff(wantUnready, gotUnready); diff != "" {
				t.Errorf("unready (-want +got):\n%s", diff)
			}
		}
	})
}

// TestAReportOnAnotherStateSaysNothing: the instances that it counted may be composed by another revision by now.
func TestAReportOnAnotherStateSaysNothing(t *testing.T) {
	wave := func(below int64) []v1alpha1.BegunWave { return []v1alpha1.BegunWave{{Below: below}} }
	counted := []Member{{Namespace: "a", Name: "x", Revision: 2, Ready: true}}
	for name, c := range map[string]struct {
		reported, now *v1alpha1.RolloutStatus
		want          Member
	}{
		"the same":            {&v1alpha1.RolloutStatus{Revision: 2, Begun: wave(hashSpace)}, &v1alpha1.RolloutStatus{Revision: 2, Begun: wave(hashSpace)}, Member{Namespace: "a", Name: "x", Revision: 2, Ready: true}},
		"another wave":        {&v1alpha1.RolloutStatus{Revision: 2, Begun: wave(1)}, &v1alpha1.RolloutStatus{Revision: 2, Begun: wave(hashSpace)}, Member{Namespace: "a", Name: "x"}},
		"an earlier revision": {&v1alpha1.RolloutStatus{Revision: 1, Begun: wave(hashSpace)}, &v1alpha1.RolloutStatus{Revision: 2, Begun: wave(hashSpace)}, Member{Namespace: "a", Name: "x"}},
		"an earlier rollout of the revision": {
			&v1alpha1.RolloutStatus{Revision: 2, StartedAt: statusTime(time.Unix(1, 0)), Begun: wave(hashSpace)}, &v1alpha1.RolloutStatus{Revision: 2, StartedAt: statusTime(time.Unix(9, 0)), Begun: wave(hashSpace)},
			Member{Namespace: "a", Name: "x"},
		},
		"no rollout": {&v1alpha1.RolloutStatus{Revision: 2, Begun: wave(hashSpace)}, nil, Member{Namespace: "a", Name: "x"}},
	} {
		members := []Member{{Namespace: "a", Name: "x"}}
		ReportOf(c.reported, counted, allSlots).Complete(c.now, members)
		if diff := cmp.Diff(c.want, members[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestInstancesCreatedAfterTheCountAreAwaited has one more instance than the report has counted.
func TestInstancesCreatedAfterTheCountAreAwaited(t *testing.T) {
	written := &v1alpha1.RolloutStatus{Revision: 2, Begun: []v1alpha1.BegunWave{{Below: hashSpace}}}
	report := ReportOf(written, []Member{{Namespace: "a", Name: "x", Revision: 2, Ready: true}}, allSlots)
	members := []Member{{Namespace: "a", Name: "x"}, {Namespace: "b", Name: "x"}}
	report.Complete(written, members)
	if unready := countMembers(written.DeepCopy(), members); len(unready) != 1 {
		t.Errorf("unready are %v, want one", unready)
	}
}

// TestCountsStayWhenAWaveBegins has a report of the wave before: what it counted as updated and ready still counts, and
// the new wave waits for a report of its own.
func TestCountsStayWhenAWaveBegins(t *testing.T) {
	var all []Member
	for i := range 30 {
		all = append(all, Member{Namespace: fmt.Sprintf("ns-%d", i), Name: "x", Revision: 2, Ready: i != 0, Reason: "NotReady"})
	}
	first := v1alpha1.BegunWave{Below: hashSpace / 2}
	written := &v1alpha1.RolloutStatus{Revision: 2, Begun: []v1alpha1.BegunWave{first}}
	for i := range all {
		if !Reached(written, all[i].Namespace, all[i].Name, nil) {
			all[i].Revision = 1
		}
	}
	before := written.DeepCopy()
	countMembers(before, all)
	report := ReportOf(written, all, allSlots)

	written.Begun = append(written.Begun, v1alpha1.BegunWave{})
	known := make([]Member, len(all))
	for i, m := range all {
		known[i] = Member{Namespace: m.Namespace, Name: m.Name}
	}
	report.Complete(written, known)
	after := written.DeepCopy()
	unready := countMembers(after, known)
	if after.Updated != before.Updated || after.Ready != before.Ready {
		t.Errorf("%d updated, %d ready once the wave has begun; %d, %d before", after.Updated, after.Ready, before.Updated, before.Ready)
	}
	if len(unready) != len(all) {
		t.Errorf("the wave waits for %d instances, want all %d", len(unready), len(all))
	}
}
