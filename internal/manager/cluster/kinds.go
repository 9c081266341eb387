package cluster

import (
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// crdChanged passes on what happens to kinds: to what is known of them, to the
// watches, and to the definitions that use or own them.
func (k *Cluster) crdChanged(was, is *apiextensionsv1.CustomResourceDefinition) {
	if was != nil && (is == nil || groupKind(was) != groupKind(is)) {
		if k.Kinds.Forget(was) {
			k.kindChanged(was, watch.KindDeleted)
		} else {
			k.wakeConcerned(was) // it served nothing, but its name is free now
		}
		was = nil
	}
	if is == nil {
		return
	}
	switch k.Kinds.Observe(is) {
	case kube.CRDUnchanged:
	case kube.CRDStatusChanged:
		k.wakeConcerned(is)
	case kube.CRDSpecChanged:
		if was == nil {
			k.kindChanged(is, watch.KindAdded)
		} else {
			k.kindChanged(is, watch.KindUpdated)
		}
	}
}

func groupKind(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
}

// Published passes on the answer to a write of a CustomResourceDefinition: what
// was published is known at once, also to who takes it back the next moment.
func (k *Cluster) Published(crd *apiextensionsv1.CustomResourceDefinition) {
	if k.Kinds.Record(crd) != kube.CRDUnchanged {
		k.kindChanged(crd, watch.KindUpdated)
		k.confirm(crd)
	}
}

// confirmed is when the watch should have told of what was written.
const confirmed = 30 * time.Second

// confirm looks whether the watch ever tells of what was published: one that is
// broken off just then misses what lives for a moment only. Nothing follows from
// its silence before it is past that revision.
func (k *Cluster) confirm(crd *apiextensionsv1.CustomResourceDefinition) {
	time.AfterFunc(confirmed, func() {
		if k.life.Err() != nil {
			return // nobody watches any more
		}
		if !k.CRDs.Past(crd.ResourceVersion) {
			k.confirm(crd)
			return
		}
		if current, exists := k.CRDs.Get(crd.Name); (!exists || current.UID != crd.UID) && k.Kinds.Forget(crd) {
			k.kindChanged(crd, watch.KindDeleted)
		}
	})
}

func (k *Cluster) kindChanged(crd *apiextensionsv1.CustomResourceDefinition, change watch.KindChange) {
	for _, hub := range k.hubs() {
		hub.KindChanged(groupKind(crd), change)
	}
	k.wakeConcerned(crd)
}

func (k *Cluster) wakeConcerned(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, key := range k.options.Concerned(crd) {
		k.Wake(key)
	}
}

// apiServices are how the API server names the versions of groups that it has.
var apiServices = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// followGroups passes on which versions of groups the API server has, so that a
// kind without a CustomResourceDefinition is noticed when it comes, and is not
// asked for until then. The channel is closed once they are known, or it is known
// that they aren't told: a definition that waits for a kind which can't come would
// be accepted before.
func (k *Cluster) followGroups() (serving *watch.Serving, told <-chan struct{}) {
	answered := make(chan struct{})
	var once sync.Once
	return k.Hub.Serve(apiServices, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			phase := k.Hub.State(apiServices, watch.All()).Phase
			k.Kinds.GroupsKnown(phase == watch.Synced)
			if phase == watch.Synced || phase == watch.Unavailable {
				once.Do(func() { close(answered) })
			}
			return
		}
		gv := kube.GroupVersionOf(key.Name)
		if service, there := k.Hub.Served(apiServices, "", key.Name); there {
			if !k.Kinds.ObserveGroup(gv, kube.ServerOf(service)) {
				return
			}
		} else {
			k.Kinds.ForgetGroup(gv)
		}
		for _, hub := range k.hubs() {
			hub.GroupChanged(gv)
		}
		for _, key := range k.options.Using(gv.Group) {
			k.Wake(key)
		}
	}), answered
}
