package cloud

import (
	"slices"
	"time"
)

// Get returns a resource. It lags behind by its [Behaviour].
func (c *Cloud) Get(k Key) (out Resource, err error) {
	err = c.step(func(now time.Time) error {
		err := error(errorf(NotFound, "%s does not exist", k))
		for _, r := range c.contents.Resources {
			if r.Key == k && r.isVisible(now) { // a later resource replaces a former one with the same name
				out, err = r.clone(), nil
			}
		}
		c.journal.add(Entry{Verb: VerbGet, Key: k, Code: codeOf(err)})
		return err
	})
	return out, err
}

// Query selects resources of a type, in a scope, with tags.
type Query struct {
	Type  Type
	Scope string
	Tags  map[string]string
}

// List returns the resources that match a query. It lags behind by their [Behaviour].
func (c *Cloud) List(q Query) (out []Resource, err error) {
	err = c.step(func(now time.Time) (err error) {
		out, err = c.list(q, now)
		c.journal.add(Entry{Verb: VerbList, Key: Key{Type: q.Type, Scope: q.Scope}, Tags: q.Tags, Code: codeOf(err)})
		return err
	})
	return out, err
}

func (c *Cloud) list(q Query, now time.Time) ([]Resource, error) {
	if tags := c.behaviours[q.Type].Tags; tags != "" && tags != TagsFindable {
		return nil, errorf(InvalidParameter, "resources of type %s cannot be found by their tags", q.Type)
	}
	var out []Resource
	for _, r := range c.contents.Resources {
		if r.Type != q.Type || r.Scope != q.Scope || !r.isVisible(now) {
			continue
		}
		out = slices.DeleteFunc(out, func(before Resource) bool { return before.ID == r.ID })
		if r.hasTags(q.Tags) {
			out = append(out, r.clone())
		}
	}
	return out, nil
}

// GetOperation returns the state of an operation. It never lags behind.
func (c *Cloud) GetOperation(id string) (out Operation, err error) {
	err = c.step(func(now time.Time) error {
		err := error(errorf(NotFound, "operation %q does not exist", id))
		for _, j := range c.contents.Operations {
			if j.ID == id {
				out, err = j.view(now), nil
			}
		}
		c.journal.add(Entry{Verb: VerbGetOperation, Key: out.Resource, Code: codeOf(err)})
		return err
	})
	return out, err
}
