package server

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// crdChanged passes on what happens to kinds: to what is known of them, to the
// watches, and to the definitions that use or own them.
func (c *Controllers) crdChanged(was, is *apiextensionsv1.CustomResourceDefinition) {
	if was != nil && (is == nil || groupKind(was) != groupKind(is)) {
		if c.kinds.Forget(was) {
			c.kindChanged(was, watch.KindDeleted)
		} else {
			c.wakeConcerned(was) // it served nothing, but its name is free now
		}
		was = nil
	}
	if is == nil {
		return
	}
	switch c.kinds.Observe(is) {
	case cluster.NoNews:
	case cluster.Remarked:
		c.wakeConcerned(is)
	case cluster.Altered:
		if was == nil {
			c.kindChanged(is, watch.KindArrived)
		} else {
			c.kindChanged(is, watch.KindAltered)
		}
	}
}

func groupKind(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
}

// published passes on the answer to a write of a CustomResourceDefinition: what
// was published is known at once, also to who takes it back the next moment.
func (c *Controllers) published(crd *apiextensionsv1.CustomResourceDefinition) {
	if c.kinds.Record(crd) != cluster.NoNews {
		c.kindChanged(crd, watch.KindAltered)
		c.confirm(crd)
	}
}

// confirmed is when the watch should have told of what was written.
const confirmed = 30 * time.Second

// confirm looks whether the watch ever tells of what was published: one that is
// broken off just then misses what lives for a moment only. Nothing follows from
// its silence before it is past that revision.
func (c *Controllers) confirm(crd *apiextensionsv1.CustomResourceDefinition) {
	time.AfterFunc(confirmed, func() {
		if c.life.Err() != nil {
			return // nobody watches any more
		}
		if !c.crds.Past(crd.ResourceVersion) {
			c.confirm(crd)
			return
		}
		if current, exists := c.crds.Get(crd.Name); (!exists || current.UID != crd.UID) && c.kinds.Forget(crd) {
			c.kindChanged(crd, watch.KindDeleted)
		}
	})
}

func (c *Controllers) kindChanged(crd *apiextensionsv1.CustomResourceDefinition, change watch.KindChange) {
	c.hub.KindChanged(groupKind(crd), change)
	c.wakeConcerned(crd)
}

func (c *Controllers) wakeConcerned(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, key := range c.registry.Concerned(crd) {
		c.wake(key)
	}
}

// apiServices are how the API server names the versions of groups that it has.
var apiServices = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// followGroups passes on which versions of groups the API server has, so that a
// kind without a CustomResourceDefinition is noticed when it comes, and is not
// asked for until then.
func (c *Controllers) followGroups() *watch.Serving {
	return c.hub.Serve(apiServices, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			c.kinds.GroupsKnown(c.hub.State(apiServices, watch.All()).Phase == watch.Synced)
			return
		}
		gv := cluster.GroupVersionOf(key.Name)
		if service, there := c.hub.Served(apiServices, "", key.Name); there {
			_, foreign, _ := unstructured.NestedFieldNoCopy(service.Object, "spec", "service")
			if !c.kinds.ObserveGroup(gv, !foreign) {
				return
			}
		} else {
			c.kinds.ForgetGroup(gv)
		}
		c.hub.GroupChanged(gv)
		for _, key := range c.registry.Using(gv.Group) {
			c.wake(key)
		}
	})
}
