package cloud

import (
	"maps"
	"slices"
	"time"
)

// Admin does to the cloud what somebody else does, behind the back of whoever makes the
// calls. What it does is done at once and whatever state a resource is in, and the cloud
// sees to its rules all the same: nothing is taken away that others refer to.
type Admin struct{ cloud *Cloud }

// Admin is the administrator's hand.
func (c *Cloud) Admin() Admin { return Admin{c} }

// Delete removes a resource. An operation that works on it fails with NotFound.
//
// Errors: NotFound, DependencyViolation.
func (a Admin) Delete(k Key) error {
	return a.touch(VerbDelete, k, func(w *world, r row, now time.Time) error {
		if err := w.unused(r); err != nil {
			return err
		}
		if j, ok := w.operations.rows[jobID(r.Operation)]; ok {
			j.Status, j.Due = FailedOperation, now
			j.Error = refuse(NotFound, "%s is gone", k)
			w.operations.put(j)
		}
		w.vanish(r, now)
		return nil
	})
}

// Retag makes these all the tags of a resource, even where calls can't change tags.
//
// Errors: NotFound, InvalidParameter.
func (a Admin) Retag(k Key, tags map[string]string) error {
	return a.touch(VerbUpdate, k, func(w *world, r row, _ time.Time) error {
		if err := checkTags(tags); err != nil {
			return err
		}
		r.Tags = copied(tags)
		w.revise(r)
		return nil
	})
}

// Change makes these the properties of a resource, in force at once; an update that is
// running goes over them.
//
// Errors: NotFound, InvalidParameter, InvalidState, DependencyViolation, all as with
// [Cloud.Update].
func (a Admin) Change(k Key, properties Properties) error {
	next, err := packed(properties)
	if err == nil && next.IsZero() {
		err = invalid("properties", "are missing")
	}
	if err != nil {
		return err
	}
	return a.touch(VerbUpdate, k, func(w *world, r row, _ time.Time) error {
		if err := checkSuccessor(next, r); err != nil {
			return err
		}
		if err := w.fits(k, next, r.Properties); err != nil {
			return err
		}
		r.Properties = next
		w.revise(r)
		return nil
	})
}

// Fill makes a bucket hold so many objects.
//
// Errors: NotFound; InvalidParameter for what is no bucket or a negative number;
// InvalidState for a bucket that isn't ACTIVE or UPDATING.
func (a Admin) Fill(k Key, objects int) error {
	return a.touch(VerbUpdate, k, func(w *world, r row, _ time.Time) error {
		if r.Type != TypeBucket || objects < 0 {
			return invalid("objects", "%s can't hold %d", k, objects)
		}
		if !r.State.usable() {
			return refuse(InvalidState, "%s is %s", k, r.State)
		}
		r.Outputs.Objects = objects
		w.revise(r)
		return nil
	})
}

// touch lets somebody work on a resource, and notes it.
func (a Admin) touch(v Verb, k Key, work func(w *world, r row, now time.Time) error) error {
	return a.cloud.steer(func(w *world, now time.Time) error {
		r, err := w.find(k)
		if err == nil {
			err = work(w, r, now)
		}
		a.cloud.journal.add(Entry{
			At: now, Verb: v, Key: k, Serial: r.Serial, Tags: maps.Clone(r.Tags), Code: CodeOf(err), Effect: err == nil, OutOfBand: true,
		})
		return err
	})
}

// Snapshot is everything that there is, as it is: no read lags here.
type Snapshot struct {
	At time.Time `json:"at"`
	// Resources are sorted by type, scope and ID.
	Resources []Resource `json:"resources"`
	// Operations are those that can be asked for, in the order in which they began.
	Operations []Operation `json:"operations"`
	// Late is how many calls are on their way whose callers have given up.
	Late       int                `json:"late,omitempty"`
	Behaviours map[Type]Behaviour `json:"behaviours,omitempty"`
	Faults     []Fault            `json:"faults,omitempty"`
	Chaos      Chaos              `json:"chaos,omitzero"`
}

// Snapshot shows everything.
//
// Errors: Unavailable, if the cloud is closed or its disk has failed.
func (a Admin) Snapshot() (Snapshot, error) {
	var out Snapshot
	err := a.cloud.steer(func(w *world, now time.Time) error {
		out = Snapshot{
			At: now, Late: len(w.letters.rows), Behaviours: map[Type]Behaviour{}, Faults: append([]Fault(nil), w.Faults...), Chaos: w.Chaos,
		}
		for _, t := range w.treatments.rows {
			out.Behaviours[t.Type] = t.Behaviour
		}
		for _, r := range w.resources.rows {
			out.Resources = append(out.Resources, r.view())
		}
		for _, id := range slices.Sorted(maps.Keys(w.operations.rows)) {
			if j, err := w.job(id, now); err == nil {
				out.Operations = append(out.Operations, j.view())
			}
		}
		slices.SortFunc(out.Resources, func(a, b Resource) int { return a.Compare(b.Key) })
		return nil
	})
	return out, err
}
