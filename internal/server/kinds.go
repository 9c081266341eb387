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
	switch {
	case is == nil && c.kinds.Forget(was):
		c.kindChanged(was, watch.KindDeleted)
	case is == nil:
		c.wakeConcerned(was) // it served nothing, but its name is free now
	case !c.kinds.Observe(is): // it says nothing new
	case was == nil:
		c.kindChanged(is, watch.KindArrived)
	default:
		c.kindChanged(is, watch.KindAltered)
	}
}

// published passes on the answer to a write of a CustomResourceDefinition: what
// was published is known at once, also to who takes it back the next moment.
func (c *Controllers) published(crd *apiextensionsv1.CustomResourceDefinition) {
	if !c.kinds.Record(crd) {
		return
	}
	c.kindChanged(crd, watch.KindAltered)
	// A watch that is broken off just now may never tell of one that lives for a
	// moment.
	time.AfterFunc(confirmed, func() {
		if current, exists := c.crds.Get(crd.Name); (!exists || current.UID != crd.UID) && c.kinds.Forget(crd) {
			c.kindChanged(crd, watch.KindDeleted)
		}
	})
}

// confirmed is when the watch has long told of what was written.
const confirmed = 30 * time.Second

func (c *Controllers) kindChanged(crd *apiextensionsv1.CustomResourceDefinition, change watch.KindChange) {
	c.hub.KindChanged(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, change)
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
			c.kinds.ObserveGroup(gv, !foreign)
		} else {
			c.kinds.ForgetGroup(gv)
		}
		c.hub.GroupChanged(gv)
	})
}
