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
	// Reached counts the instances in these slots that the waves have reached, and Pending those of them that are not
	// ready at the revision. Unready are the first of the latter, sorted.
	Reached int                        `json:"reached"`
	Pending int                        `json:"pending,omitempty"`
	Unready []v1alpha1.UnreadyInstance `json:"unready,omitempty"`
}

// ReportOf counts the members in the slots of a replica. Written is the status that was written last.
func ReportOf(written *v1alpha1.RolloutStatus, members []Member, slots shard.Set) Report {
	own := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !slots.Has(shard.SlotOf(m.Namespace, m.Name)) })
	status := written.DeepCopy()
	pending := countMembers(status, own)
	return Report{
		Revision: written.Revision, Begun: object.Digest(written.Begun), Slots: slots,
		Reached: len(pending) + int(status.Ready), Pending: len(pending), Unready: status.Unready,
	}
}

// Complete adds to the members what a replica knows of those that it reconciles. A report on another state of the
// rollout says nothing. Instances that it cannot have counted are not ready yet.
func (r Report) Complete(written *v1alpha1.RolloutStatus, members []Member) {
	if written == nil || r.Revision != written.Revision || r.Begun != object.Digest(written.Begun) {
		return
	}
	reached := reachedFunc(written.Begun)
	type name struct{ namespace, name string }
	unready := map[name]v1alpha1.UnreadyInstance{}
	for _, u := range r.Unready {
		unready[name{u.Namespace, u.Name}] = u
	}
	var ready []*Member
	total := 0
	for i := range members {
		m := &members[i]
		if !r.Slots.Has(shard.SlotOf(m.Namespace, m.Name)) || !m.participates() {
			continue
		}
		if !reached(m.Namespace, m.Name, m.Labels) {
			m.Revision = cmp.Or(m.Revision, unreached)
			continue
		}
		total++
		if u, pending := unready[name{m.Namespace, m.Name}]; pending {
			m.Revision, m.Ready, m.Reason, m.Message = r.Revision, false, u.Reason, u.Message
			continue
		}
		m.Revision, m.Ready = r.Revision, true
		ready = append(ready, m)
	}
	// Those that are pending without being named, and those that were created after the count, are among these.
	for _, m := range ready[:min(len(ready), max(0, r.Pending-len(r.Unready))+max(0, total-r.Reached))] {
		m.Ready, m.Reason, m.Message = false, updating, "not reported ready by its replica yet"
	}
}

// unreached is the revision of a member that another replica reconciles and that no wave has reached: the serving
// one, whatever that is.
const unreached = -1

// updating is the reason of an instance that is not reconciled at the revision yet.
const updating = "Updating"
