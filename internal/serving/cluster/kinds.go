package cluster

import (
	"context"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// crdChanged updates discovery, watches and dependent definitions for a change of a
// CustomResourceDefinition. Either argument may be nil.
func (k *Cluster) crdChanged(before, after *crd.Stored) {
	if before != nil && (after == nil || crd.GroupKind(before.CustomResourceDefinition) != crd.GroupKind(after.CustomResourceDefinition)) {
		if k.Kinds.ForgetCRD(before.CustomResourceDefinition) {
			k.kindChanged(before.CustomResourceDefinition, watch.KindDeleted)
		} else {
			k.enqueueDependents(before.CustomResourceDefinition) // it served nothing, but its name is free now
		}
		before = nil
	}
	if after == nil {
		return
	}
	switch k.Kinds.ObserveCRD(after) {
	case kube.CRDUnchanged:
	case kube.CRDStatusChanged:
		k.enqueueDependents(after.CustomResourceDefinition)
	case kube.CRDSpecChanged:
		if before == nil {
			k.kindChanged(after.CustomResourceDefinition, watch.KindAdded)
		} else {
			k.kindChanged(after.CustomResourceDefinition, watch.KindUpdated)
		}
	}
}

func groupKind(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
}

// RecordCRD takes in the response to a write of a CustomResourceDefinition, so that its kind is
// known before the watch delivers it.
func (k *Cluster) RecordCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	if k.Kinds.RecordCRD(crd) != kube.CRDUnchanged {
		k.kindChanged(crd, watch.KindUpdated)
		k.confirmCRD(crd)
	}
}

// confirmDelay is how long the watch may take to deliver a write.
const confirmDelay = 30 * time.Second

// confirmCRD checks that a CustomResourceDefinition that was written still exists: a watch that
// is interrupted misses one that is deleted at once. The cache decides this only once the
// watch is past the written resourceVersion. Nothing waits for that after the cluster has stopped.
func (k *Cluster) confirmCRD(written *apiextensionsv1.CustomResourceDefinition) {
	written = crd.WithoutSchemas(written) // all of them would be in memory until then
	stopped := make(chan func() bool, 1)
	pending := time.AfterFunc(confirmDelay, func() {
		(<-stopped)()
		if k.runContext.Err() != nil {
			return // the cluster has stopped
		}
		if !k.CRDs.HasObserved(written.ResourceVersion) {
			k.confirmCRD(written)
			return
		}
		if current, exists := k.CRDs.Get(written.Name); (!exists || current.UID != written.UID) && k.Kinds.ForgetCRD(written) {
			k.kindChanged(written, watch.KindDeleted)
		}
	})
	// A pending timer would keep the whole cluster in memory.
	stopped <- context.AfterFunc(k.runContext, func() { pending.Stop() })
}

func (k *Cluster) kindChanged(crd *apiextensionsv1.CustomResourceDefinition, change watch.KindChange) {
	if change == watch.KindDeleted && k.Kinds.MayBeBuiltIn(crd.Spec.Group) {
		change = watch.KindAdded // watches in a built-in version go on
	}
	for _, hub := range k.hubs() {
		hub.KindChanged(groupKind(crd), change)
	}
	k.enqueueDependents(crd)
}

func (k *Cluster) enqueueDependents(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, key := range k.options.CRDDependents(crd) {
		k.Enqueue(key)
	}
}

// apiServices is the kind that lists the served versions of groups.
var apiServices = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// followGroups watches which versions of groups the API server serves, so that an aggregated
// kind is found when it appears and is not requested before. The channel is closed once these
// are known, or are known to be unavailable: before that, a definition would be accepted and
// wait for a kind that cannot appear.
func (k *Cluster) followGroups() (serving *watch.KindWatch, known <-chan struct{}) {
	decided := make(chan struct{})
	var once sync.Once
	return k.Hub.WatchKind(apiServices, func(key object.Key, _ watch.Cause) {
		if key.Name == "" {
			phase := k.Hub.State(apiServices, watch.All()).Phase
			k.Kinds.SetGroupsComplete(phase == watch.Synced)
			if phase == watch.Synced || phase == watch.Unavailable {
				once.Do(func() { close(decided) })
			}
			return
		}
		gv := kube.GroupVersionOf(key.Name)
		if service, exists := k.Hub.GetCached(apiServices, "", key.Name); exists {
			if !k.Kinds.ObserveGroup(gv, kube.ServerOf(service)) {
				return
			}
		} else {
			k.Kinds.ForgetGroup(gv)
		}
		for _, hub := range k.hubs() {
			hub.GroupChanged(gv)
		}
		for _, key := range k.options.GroupDependents(gv.Group) {
			k.Enqueue(key)
		}
	}), decided
}
