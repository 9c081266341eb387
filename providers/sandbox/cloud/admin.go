package cloud

import (
	"maps"
	"time"
)

// Admin does to the cloud what somebody else does, behind the back of those who make
// the calls: at once, and whatever state a resource is in.
type Admin struct{ cloud *Cloud }

// Admin is the administrator's access.
func (c *Cloud) Admin() Admin { return Admin{c} }

// Delete removes a resource that no other refers to. An operation that works on it fails.
func (a Admin) Delete(k Key) error {
	return a.touch(VerbDelete, k, func(r *record, now time.Time) error {
		if err := a.cloud.unused(k); err != nil {
			return err
		}
		if j := a.cloud.running(k); j != nil {
			j.Status, j.Error = FailedOperation, refuse(NotFound, "%s is gone", k)
		}
		a.cloud.vanish(r, now)
		return nil
	})
}

// Retag makes these all the tags of a resource.
func (a Admin) Retag(k Key, tags map[string]string) error {
	return a.touch(VerbUpdate, k, func(r *record, _ time.Time) error {
		r.Tags = maps.Clone(tags)
		return nil
	})
}

// Change makes these the properties of a resource; an update that is running goes over
// them.
func (a Admin) Change(k Key, p Properties) error {
	return a.touch(VerbUpdate, k, func(r *record, _ time.Time) error {
		if err := p.check(k.Type); err != nil {
			return err
		}
		r.Properties = p.clone()
		return nil
	})
}

// touch works on a resource, and notes it.
func (a Admin) touch(v Verb, k Key, work func(r *record, now time.Time) error) error {
	return a.cloud.step(func(now time.Time) error {
		r, err := a.cloud.find(k)
		if err == nil {
			err = work(r, now)
		}
		a.cloud.journal.add(Entry{Verb: v, Key: k, Code: codeOf(err), Effect: err == nil, OutOfBand: true})
		return err
	})
}

// Resources are all that there are, as they are: no read lags here. They are in the
// order in which they were made.
func (a Admin) Resources() []Resource {
	var out []Resource
	_ = a.cloud.step(func(time.Time) error { // whether it can be stored makes no difference
		for _, r := range a.cloud.contents.Resources {
			if r.Gone.IsZero() {
				out = append(out, r.clone())
			}
		}
		return nil
	})
	return out
}
