package plane

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	// newKinds is how long the collector may take to learn of a kind that was added. The usual
	// thirty seconds are too long where kinds come and go as fast as instances do.
	newKinds = 5 * time.Second

	// resync makes the controllers look again at what they believe they have done.
	resync = 10 * time.Minute

	workers = 10
)

// controllers are the two without which a deletion would not end: the garbage collector, for
// objects whose owners are gone, and the namespace controller, for what is in a namespace.
type controllers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startControllers returns at once; the controllers are at work when their caches are filled.
func startControllers(admin *rest.Config) (*controllers, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(admin), "controllers"))
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &controllers{cancel: cancel}
	typed := informers.NewSharedInformerFactory(client, resync)
	metas := metadatainformer.NewSharedInformerFactory(objects, resync)
	started := make(chan struct{})

	collector, err := garbagecollector.NewGarbageCollector(ctx, client, objects,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(typed, metas), started)
	if err != nil {
		cancel()
		return nil, err
	}
	// The collector's look at the kinds must not share the cache of its mapper, which it resets.
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		cancel()
		return nil, err
	}
	namespaces := namespace.NewNamespaceController(ctx, client, objects,
		client.Discovery().ServerPreferredNamespacedResources,
		typed.Core().V1().Namespaces(), resync, corev1.FinalizerKubernetes)

	typed.Start(ctx.Done())
	metas.Start(ctx.Done())
	close(started)
	c.running.Go(func() { collector.Run(ctx, workers, newKinds) })
	c.running.Go(func() { collector.Sync(ctx, kinds, newKinds) })
	c.running.Go(func() { namespaces.Run(ctx, workers) })
	return c, nil
}

// stop returns when none of them writes any more.
func (c *controllers) stop() {
	c.cancel()
	c.running.Wait()
}
