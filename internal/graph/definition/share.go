package definition

import (
	"encoding/json"

	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Replicas exchanges reports with the other replicas of the controllers; *membership.Membership does. It is safe for
// concurrent use.
type Replicas interface {
	// Slots are those whose objects this replica reconciles.
	Slots() shard.Set
	// Publish replaces this replica's report on a topic, at some time soon; nil removes it.
	Publish(topic string, report []byte)
	// Reports returns the other replicas' reports on a topic.
	Reports(topic string) [][]byte
}

// reportRollout publishes, for the replica that advances the rollout of a definition, what this one knows of the instances.
func (r *Dialect) reportRollout(v *session) {
	v.memory.startedAt = r.Now() // if this replica advances the rollout next, it first waits for the reports of the others
	if r.Replicas == nil {
		return
	}
	topic := string(v.GetUID())
	if revision.StateOf(v.status).Rolling() == 0 {
		v.memory.rollout.waits.Store(false)
		r.Replicas.Publish(topic, nil)
		return
	}
	v.memory.rollout.waits.Store(true) // before the instances are read: a later change enqueues the definition
	if left := v.memory.rollout.countedAt.Add(countInterval(v.memory.rollout.members)).Sub(r.Now()); left > 0 {
		v.rollout.step.RequeueAfter = left
		return
	}
	report, err := json.Marshal(revision.ReportOf(v.status.Rollout, r.members(v), r.Replicas.Slots()))
	if err == nil { // it has no field that could not be encoded
		r.Replicas.Publish(topic, report)
	}
}

// membersOfAll is members with what the other replicas know.
func (r *Dialect) membersOfAll(v *session) []revision.Member {
	members := r.members(v)
	if r.Replicas == nil {
		return members
	}
	topic := string(v.GetUID())
	r.Replicas.Publish(topic, nil) // another replica has advanced the rollout before
	own := r.Replicas.Slots()
	for _, text := range r.Replicas.Reports(topic) {
		var report revision.Report
		if json.Unmarshal(text, &report) != nil {
			continue // of another version, perhaps: its instances are waited for
		}
		report.Slots = report.Slots.Without(own)
		report.Complete(v.status.Rollout, members)
	}
	return members
}
