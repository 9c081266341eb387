package packages

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

type subscriber struct{ notify func(name string) }

// Subscribe calls notify for each function with responses that may have changed: its route changed,
// it was restarted, added or removed. notify is called from several goroutines, sometimes
// twice for one change, and must not block.
func (c *Registry) Subscribe(notify func(name string)) (stop func()) {
	l := &subscriber{notify}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[l] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, l)
	}
}

// startWatches watches both kinds. Each event only names an object, which is then read from
// the hub.
func (c *Registry) startWatches() {
	functions := c.hub.WatchKind(FunctionKind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			c.refreshAll()
			return
		}
		c.refreshFunction(key.Name)
	})
	revisions := c.hub.WatchKind(RevisionKind, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			c.refreshAll()
			return
		}
		c.refreshRevision(key.Name)
	})
	c.stopFuncs = append(c.stopFuncs, functions.Stop, revisions.Stop)
	c.refreshAll()
}

func (c *Registry) refreshFunction(name string) {
	c.mu.Lock()
	c.readFunctionObject(name)
	notify := c.updateRoutes(name)
	c.mu.Unlock()
	notify()
}

// readFunctionObject requires the lock.
func (c *Registry) readFunctionObject(name string) {
	delete(c.functions, name)
	if o, ok := c.hub.GetCached(FunctionKind, "", name); ok {
		c.functions[name] = readFunction(o)
	}
}

func (c *Registry) refreshRevision(name string) {
	c.mu.Lock()
	affected := []string{c.revisions[name].function}
	delete(c.revisions, name)
	if o, ok := c.hub.GetCached(RevisionKind, "", name); ok {
		c.revisions[name] = readRevision(o)
		affected = append(affected, c.revisions[name].function)
	}
	notify := c.updateRoutes(slices.Compact(affected)...)
	c.mu.Unlock()
	notify()
}

func (c *Registry) refreshAll() {
	c.mu.Lock()
	for _, kind := range []schema.GroupVersionKind{FunctionKind, RevisionKind} {
		if c.hasSynced(kind) {
			c.synced[kind.Kind] = true
		}
	}
	all := func(kind schema.GroupVersionKind) []*unstructured.Unstructured {
		return c.hub.Select(kind, "", labels.Everything())
	}
	names := map[string]bool{}
	for name := range c.routes {
		names[name] = true
	}
	maps.Copy(names, c.builtIn)
	for name := range c.options.Local {
		names[name] = true
	}
	clear(c.functions)
	for _, o := range all(FunctionKind) {
		c.functions[o.GetName()], names[o.GetName()] = readFunction(o), true
	}
	clear(c.revisions)
	for _, o := range all(RevisionKind) {
		r := readRevision(o)
		c.revisions[o.GetName()], names[r.function] = r, true
	}
	notify := c.updateRoutes(slices.Sorted(maps.Keys(names))...)
	c.mu.Unlock()
	notify()
}

// hasSynced is true for a kind that isn't served: it has no objects.
func (c *Registry) hasSynced(kind schema.GroupVersionKind) bool {
	state := c.hub.State(kind, watch.All())
	return state.Phase == watch.Synced || state.Phase == watch.Unavailable && state.Reason == watch.WaitingForKind
}

// unsyncedMessage is why the functions aren't read yet; empty if they are. If the watch
// fails later, the last state is used. The caller holds the lock.
func (c *Registry) unsyncedMessage() string {
	for _, kind := range []schema.GroupVersionKind{FunctionKind, RevisionKind} {
		if c.synced[kind.Kind] {
			continue
		}
		if state := c.hub.State(kind, watch.All()); state.Message != "" {
			return kind.Kind + ": " + state.Message
		}
		return "the watch of " + kind.Kind + " is not synced yet"
	}
	return ""
}

// updateRoutes computes the routes of functions. It returns a function that notifies the
// subscribers of changes and enqueues the objects for their status. The caller holds the
// lock, and calls notify without it.
func (c *Registry) updateRoutes(names ...string) (notify func()) {
	var changed []string
	var affected []object.Key
	for _, name := range names {
		if name == "" {
			continue // a revision without the label of its function
		}
		old, existed := c.routes[name]
		route := routeFor(c.routeInput(name))
		if route.Problem.Reason == UnknownFunction {
			delete(c.routes, name)
		} else {
			c.routes[name] = route
		}
		c.runPackage(name, route.Package)
		if old != route && existed || !existed && route.Problem.Reason != UnknownFunction {
			changed = append(changed, name)
		}
		affected = append(affected, object.Key{Group: FunctionKind.Group, Kind: FunctionKind.Kind, Name: name})
		for _, r := range c.revisions {
			if r.function == name {
				affected = append(affected, object.Key{Group: RevisionKind.Group, Kind: RevisionKind.Kind, Name: r.name})
			}
		}
	}
	subscribers := slices.Collect(maps.Keys(c.subscribers))
	return func() {
		for _, key := range affected {
			c.enqueue(key)
		}
		notifyAll(subscribers, changed)
	}
}

// runPackage has the package of a function run, instead of the former one; the zero Package is none. The caller holds the lock.
func (c *Registry) runPackage(name string, p local.Package) {
	former := c.started[name]
	if former == p {
		return
	}
	if p != (local.Package{}) {
		c.options.Packages.Start(p)
		c.started[name] = p
	} else {
		delete(c.started, name)
	}
	if former != (local.Package{}) {
		c.options.Packages.Stop(former)
	}
}

// notifyAll must be called without the lock.
func notifyAll(subscribers []*subscriber, functions []string) {
	for _, name := range functions {
		for _, l := range subscribers {
			l.notify(name)
		}
	}
}
