package cloud

import (
	"maps"
	"slices"
	"time"
)

// Get shows a resource, as far as reads are: see [Behaviour].
//
// Errors: NotFound, and what faults answer.
func (c *Cloud) Get(k Key) (Resource, error) {
	var out Resource
	err := c.read(Entry{Verb: VerbGet, Key: k}, func(w *world, now time.Time) (err error) {
		out, err = w.look(k, now)
		return err
	})
	return out, err
}

// Query says what to list.
type Query struct {
	// Type is which type; there is no listing of all at once.
	Type Type
	// Scope is where; "" is everywhere.
	Scope string
	// Tags are those that a resource must have, with these values.
	Tags map[string]string
}

// List shows the resources that the query asks for, as far as reads are, sorted by
// scope and ID.
//
// Errors: InvalidParameter, if there is no such type or it isn't found by tags; and
// what faults answer.
func (c *Cloud) List(q Query) ([]Resource, error) {
	var out []Resource
	err := c.read(Entry{Verb: VerbList, Key: Key{Type: q.Type, Scope: q.Scope}, Tags: maps.Clone(q.Tags)}, func(w *world, now time.Time) (err error) {
		out, err = w.list(q, now)
		return err
	})
	return out, err
}

// ghost is a resource that is gone and still shown.
type ghost struct {
	Row   row       `json:"row"`
	Until time.Time `json:"until"`
}

func (g ghost) id() string { return g.Row.id() }

// look is what reads show of a key: a new resource hides the one before it only when
// reads have come to see it.
func (w *world) look(k Key, now time.Time) (Resource, error) {
	if r, ok := w.resources.rows[k.id()]; ok && !now.Before(r.Visible) {
		return r.view(), nil
	}
	if g, ok := w.ghosts.rows[k.id()]; ok && now.Before(g.Until) {
		return g.Row.view(), nil
	}
	return Resource{}, refuse(NotFound, "there is no %s", k)
}

func (w *world) list(q Query, now time.Time) ([]Resource, error) {
	if !q.Type.known() {
		return nil, invalid("type", "no %q", q.Type)
	}
	behaviour := w.behaviour(q.Type)
	if len(q.Tags) > 0 && !behaviour.findable() {
		return nil, invalid("tags", "a %s is not found by its tags", q.Type)
	}
	seen := map[string]Resource{}
	show := func(r row) {
		if r.Type == q.Type && (q.Scope == "" || q.Scope == r.Scope) && carries(r.Tags, q.Tags) {
			v := r.view()
			if !behaviour.findable() {
				v.Tags = nil
			}
			seen[r.id()] = v
		}
	}
	for _, g := range w.ghosts.rows {
		if now.Before(g.Until) {
			show(g.Row)
		}
	}
	for id, r := range w.resources.rows {
		if !now.Before(r.Visible) {
			delete(seen, id)
			show(r)
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b Resource) int { return a.Compare(b.Key) }), nil
}

// carries says that tags hold all that are wanted.
func carries(tags, wanted map[string]string) bool {
	for k, v := range wanted {
		if have, ok := tags[k]; !ok || have != v {
			return false
		}
	}
	return true
}
