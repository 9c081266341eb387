package packages

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// listener is one who wants to know what changes.
type listener struct{ tell func(name string) }

// Changed lets somebody be told of each function of which another answer may be had than
// before: it is served elsewhere or anew, is there for the first time, or has gone. Tell
// is called from several goroutines, sometimes twice for one change, and must not block.
func (c *Catalog) Changed(tell func(name string)) (stop func()) {
	l := &listener{tell}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[l] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, l)
	}
}

// watch follows the objects. Each event is a hint: what is there is read from the hub.
func (c *Catalog) watch() {
	functions := c.hub.Serve(FunctionKind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			c.lookAtAll()
			return
		}
		c.look(key.Name)
	})
	revisions := c.hub.Serve(RevisionKind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			c.lookAtAll()
			return
		}
		c.lookAtRevision(key.Name)
	})
	c.stop = append(c.stop, functions.Stop, revisions.Stop)
	c.lookAtAll()
}

// look finds out again where a function is.
func (c *Catalog) look(name string) {
	c.mu.Lock()
	c.read(name)
	tell := c.decide(name)
	c.mu.Unlock()
	tell()
}

// read takes note of a Function, under the lock.
func (c *Catalog) read(name string) {
	delete(c.functions, name)
	if o, ok := c.hub.Served(FunctionKind, "", name); ok {
		c.functions[name] = readFunction(o)
	}
}

func (c *Catalog) lookAtRevision(name string) {
	c.mu.Lock()
	concerned := []string{c.revisions[name].of}
	delete(c.revisions, name)
	if o, ok := c.hub.Served(RevisionKind, "", name); ok {
		c.revisions[name] = readRevision(o)
		concerned = append(concerned, c.revisions[name].of)
	}
	tell := c.decide(slices.Compact(concerned)...)
	c.mu.Unlock()
	tell()
}

// lookAtAll begins anew with what the hub holds.
func (c *Catalog) lookAtAll() {
	c.mu.Lock()
	for _, kind := range []schema.GroupVersionKind{FunctionKind, RevisionKind} {
		if c.complete(kind) {
			c.known[kind.Kind] = true
		}
	}
	all := func(kind schema.GroupVersionKind) []*unstructured.Unstructured {
		return c.hub.Select(kind, "", labels.Everything())
	}
	names := map[string]bool{}
	for name := range c.places {
		names[name] = true
	}
	maps.Copy(names, c.builtIn)
	for name := range c.options.Given {
		names[name] = true
	}
	clear(c.functions)
	for _, o := range all(FunctionKind) {
		c.functions[o.GetName()], names[o.GetName()] = readFunction(o), true
	}
	clear(c.revisions)
	for _, o := range all(RevisionKind) {
		r := readRevision(o)
		c.revisions[o.GetName()], names[r.of] = r, true
	}
	tell := c.decide(slices.Sorted(maps.Keys(names))...)
	c.mu.Unlock()
	tell()
}

// complete says whether all objects of a kind are known: there are none of one that isn't
// served.
func (c *Catalog) complete(kind schema.GroupVersionKind) bool {
	state := c.hub.State(kind, watch.All())
	return state.Phase == watch.Synced || state.Phase == watch.Unavailable && state.Reason == watch.WaitingForKind
}

// unseen is why it isn't known which functions there are; empty if it is. Once they have
// been seen they count as they were last seen. It is called under the lock.
func (c *Catalog) unseen() string {
	for _, kind := range []schema.GroupVersionKind{FunctionKind, RevisionKind} {
		if c.known[kind.Kind] {
			continue
		}
		if state := c.hub.State(kind, watch.All()); state.Message != "" {
			return kind.Kind + ": " + state.Message
		}
		return "the watch of " + kind.Kind + " has only begun"
	}
	return ""
}

// decide says where functions are, and returns what tells those that want to know what
// has changed, and has the status of the objects looked at. It is called under the lock,
// and that without it.
func (c *Catalog) decide(names ...string) (tell func()) {
	var changed []string
	var wake []object.Key
	for _, name := range names {
		if name == "" {
			continue // a revision that doesn't say whose it is
		}
		was, there := c.places[name]
		is := decide(c.facts(name))
		if is.Problem.Reason == Unknown {
			delete(c.places, name)
		} else {
			c.places[name] = is
		}
		if was != is && there || !there && is.Problem.Reason != Unknown {
			changed = append(changed, name)
		}
		wake = append(wake, object.Key{Group: FunctionKind.Group, Kind: FunctionKind.Kind, Name: name})
		for _, r := range c.revisions {
			if r.of == name {
				wake = append(wake, object.Key{Group: RevisionKind.Group, Kind: RevisionKind.Kind, Name: r.name})
			}
		}
	}
	listeners := slices.Collect(maps.Keys(c.listeners))
	return func() {
		for _, key := range wake {
			c.wake(key)
		}
		for _, name := range changed {
			for _, l := range listeners {
				l.tell(name)
			}
		}
	}
}
