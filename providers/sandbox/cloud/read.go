package cloud

import (
	"slices"
	"time"
)

// Get shows a resource, as far as reads are: see [Behaviour].
func (c *Cloud) Get(k Key) (out Resource, err error) {
	err = c.step(func(now time.Time) error {
		err := error(refuse(NotFound, "there is no %s", k))
		for _, r := range c.contents.Resources {
			if r.Key == k && r.shown(now) { // a later one with the same name hides the one before it
				out, err = r.clone(), nil
			}
		}
		c.journal.add(Entry{Verb: VerbGet, Key: k, Code: codeOf(err)})
		return err
	})
	return out, err
}

// Query says what to find: resources of a type, in a scope, that have tags.
type Query struct {
	Type  Type
	Scope string
	Tags  map[string]string
}

// List shows the resources that the query asks for, as far as reads are.
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
		return nil, refuse(InvalidParameter, "a %s is not found by its tags", q.Type)
	}
	var out []Resource
	for _, r := range c.contents.Resources {
		if r.Type != q.Type || r.Scope != q.Scope || !r.shown(now) {
			continue
		}
		out = slices.DeleteFunc(out, func(before Resource) bool { return before.ID == r.ID })
		if r.carries(q.Tags) {
			out = append(out, r.clone())
		}
	}
	return out, nil
}

// GetOperation shows how far an operation is. Reads of operations never lag.
func (c *Cloud) GetOperation(id string) (out Operation, err error) {
	err = c.step(func(now time.Time) error {
		err := error(refuse(NotFound, "there is no operation %q", id))
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
