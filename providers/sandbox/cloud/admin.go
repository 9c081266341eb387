package cloud

import (
	"maps"
	"time"
)

// Admin makes out-of-band changes, as another client or a person would: immediately, and in
// any state of a resource.
type Admin struct{ cloud *Cloud }

// Admin returns the administrative access.
func (c *Cloud) Admin() Admin { return Admin{c} }

// Delete deletes a resource that no other refers to. A running operation on it fails.
func (a Admin) Delete(k Key) error {
	return a.update(VerbDelete, k, func(r *record, now time.Time) error {
		if err := a.cloud.checkUnused(k); err != nil {
			return err
		}
		if j := a.cloud.running(k); j != nil {
			j.Status, j.Error = FailedOperation, errorf(NotFound, "%s was deleted out of band", k)
		}
		a.cloud.removeResource(r, now)
		return nil
	})
}

// Retag replaces the tags of a resource.
func (a Admin) Retag(k Key, tags map[string]string) error {
	return a.update(VerbUpdate, k, func(r *record, _ time.Time) error {
		r.Tags = maps.Clone(tags)
		return nil
	})
}

// Change replaces the properties of a resource. A running update overwrites them when it
// ends.
func (a Admin) Change(k Key, p Properties) error {
	return a.update(VerbUpdate, k, func(r *record, _ time.Time) error {
		if err := p.check(k.Type); err != nil {
			return err
		}
		r.Properties = p.clone()
		return nil
	})
}

// update changes a resource, and adds that to the journal.
func (a Admin) update(v Verb, k Key, do func(r *record, now time.Time) error) error {
	return a.cloud.step(func(now time.Time) error {
		r, err := a.cloud.find(k)
		if err == nil {
			err = do(r, now)
		}
		a.cloud.journal.add(Entry{Verb: v, Key: k, Code: codeOf(err), Effect: err == nil, OutOfBand: true})
		return err
	})
}

// Resources returns all resources in the order of their creation. It never lags behind.
func (a Admin) Resources() []Resource {
	var out []Resource
	_ = a.cloud.step(func(time.Time) error { // a failure to store does not matter for a read
		for _, r := range a.cloud.contents.Resources {
			if r.Gone.IsZero() {
				out = append(out, r.clone())
			}
		}
		return nil
	})
	return out
}
