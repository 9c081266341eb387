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
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	// newKinds is how often the garbage collector discovers kinds. The default of thirty seconds
	// is too long if kinds are added and removed as fast as instances.
	newKinds = 5 * time.Second

	// resync is how often the controllers reconcile objects without events.
	resync = 10 * time.Minute

	workers = 10

	// roleWorkers is enough for the few ClusterRoles that have an aggregation rule.
	roleWorkers = 1
)

// controllers are the controllers of Kubernetes that users of the API notice: the garbage collector deletes
// objects whose owners are gone, the namespace controller deletes the objects of a namespace, and another one
// fills in the rules of ClusterRoles with an aggregation rule, of which the installation of Espalier has some.
type controllers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startControllers returns at once; the controllers work once their caches have synced.
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
	// The collector's discovery must not share the cache of its mapper, which it resets.
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		cancel()
		return nil, err
	}
	namespaces := namespace.NewNamespaceController(ctx, client, objects,
		client.Discovery().ServerPreferredNamespacedResources,
		typed.Core().V1().Namespaces(), resync, corev1.FinalizerKubernetes)
	roles := clusterroleaggregation.NewClusterRoleAggregation(typed.Rbac().V1().ClusterRoles(), client.RbacV1())

	typed.Start(ctx.Done())
	metas.Start(ctx.Done())
	close(started)
	c.running.Go(func() { collector.Run(ctx, workers, newKinds) })
	c.running.Go(func() { collector.Sync(ctx, kinds, newKinds) })
	c.running.Go(func() { namespaces.Run(ctx, workers) })
	c.running.Go(func() { roles.Run(ctx, roleWorkers) })
	return c, nil
}

// stop returns when all have ended.
func (c *controllers) stop() {
	c.cancel()
	c.running.Wait()
}
