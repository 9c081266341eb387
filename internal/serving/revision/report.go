package revision

import (
	"cmp"
	"slices"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Report is what one of several replicas of the controllers knows of the instances that it reconciles, while a
// rollout waits for them. The replica that advances the rollout reads the reports of the others.
type Report struct {
	// Revision and Begun say in which state of the rollout the instances were counted.
	Revision int64  `json:"revision"`
	Begun    string `json:"begun"`
	// Slots are those of the replica.
	Slots shard.Set `json:"slots"`
	// Reached counts the instances in these slots that the waves have reached, Updated those of them that have the
	// revision, and Pending those that are not ready at it. Unready are the first of the latter, sorted.
	Reached int                        `json:"reached"`
	Updated int                        `json:"updated,omitempty"`
	Pending int                        `json:"pending,omitempty"`
	Unready []v1alpha1.UnreadyInstance `json:"unready,omitempty"`
}

// ReportOf counts the members in the slots of a replica. Written is the status that was written last.
func ReportOf(written *v1alpha1.RolloutStatus, members []Member, slots shard.Set) Report {
	own := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !slots.Has(shard.SlotOf(m.Namespace, m.Name)) })
	status := written.DeepCopy()
	pending := countMembers(status, own)
	return Report{
		Revision: written.Revision, Begun: digestBegun(written, len(written.Begun)), Slots: slots,
		Reached: len(pending) + int(status.Ready), Updated: int(status.Updated), Pending: len(pending), Unready: status.Unready,
	}
}

// digestBegun identifies the first waves of a rollout. A rollout that begins again for the same revision is another one.
func digestBegun(of *v1alpha1.RolloutStatus, waves int) string {
	return object.Digest([]any{of.StartedAt, append([]v1alpha1.BegunWave{}, of.Begun[:waves]...)})
}

// countedWaves are the waves that had begun when the instances were counted: the first ones of the rollout, or all.
// known is false if the report is on another rollout, or the waves have begun again.
func (r Report) countedWaves(written *v1alpha1.RolloutStatus) (begun []v1alpha1.BegunWave, known bool) {
	if written == nil || r.Revision != written.Revision {
		return nil, false
	}
	for n := len(written.Begun); n >= 0; n-- {
		if r.Begun == digestBegun(written, n) {
			return written.Begun[:n], true
		}
	}
	return nil, false
}

// Complete adds to the members what a replica knows of those that it reconciles. A report from before the last wave began
// says which instances are updated, and the wave waits for another one; a report on another rollout says nothing.
// Instances that it cannot have counted are not ready yet.
func (r Report) Complete(written *v1alpha1.RolloutStatus, members []Member) {
	begun, known := r.countedWaves(written)
	if !known {
		return
	}
	late := len(begun) < len(written.Begun)
	counted, reached := reachedFunc(begun), reachedFunc(written.Begun)
	type name struct{ namespace, name string }
	unready := map[name]v1alpha1.UnreadyInstance{}
	for _, u := range r.Unready {
		unready[name{u.Namespace, u.Name}] = u
	}
	var ready []*Member
	total, outdated := 0, r.Reached-r.Updated
	for i := range members {
		m := &members[i]
		if !r.Slots.Has(shard.SlotOf(m.Namespace, m.Name)) || !m.participates() {
			continue
		}
		if !counted(m.Namespace, m.Name, m.Labels) {
			if !reached(m.Namespace, m.Name, m.Labels) {
				m.Revision = cmp.Or(m.Revision, unreached)
			}
			continue
		}
		total++
		u, pending := unready[name{m.Namespace, m.Name}]
		switch {
		case pending && u.Reason == updating:
			m.Revision = unreached
			outdated--
		case pending:
			m.Revision, m.Ready, m.Reason, m.Message = r.Revision, false, u.Reason, u.Message
		default:
			m.Revision, m.Ready, m.Unconfirmed = r.Revision, true, late
			ready = append(ready, m)
		}
	}
	// Those that are pending without being named, and those that were created after the count, are among these.
	created := max(0, total-r.Reached)
	for i, m := range ready[:min(len(ready), max(0, r.Pending-len(r.Unready))+created)] {
		m.Ready, m.Reason, m.Message = false, updating, "not reported ready by its replica yet"
		if i < outdated+created {
			m.Revision = unreached
		}
	}
}

// unreached is the revision of a member that another replica reconciles and has not updated: an earlier one, whatever
// that is.
const unreached = -1

// updating is the reason of an instance that is not reconciled at the revision yet.
const updating = "Updating"
