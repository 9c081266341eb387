// Package standin plays the controllers of a cloud that isn't there: it watches
// the kinds of cloud.example.com and fills in their status after a while, as if
// something had been made. The demo runs it beside the real engine, so that a
// newcomer needs no account anywhere. Nothing is made, and nothing removed.
package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Group is the API group of the cloud's kinds.
const Group = "cloud.example.com"

// manager names the stand-in among those who write fields.
const manager = "cloud-stand-in"

// resources are the cloud's kinds as they are served.
var resources = []string{"networks", "subnets", "controlplanes", "nodepools"}

func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: "v1", Resource: plural}
}

// Cloud is the stand-in.
type Cloud struct {
	client    dynamic.Interface
	informers map[string]cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[item]
	// due tells when the cloud will be done with a generation of an object. It is
	// used by the one worker alone.
	due map[work]time.Time
}

type item struct{ resource, key string }

type work struct {
	uid        types.UID
	generation int64
}

// New prepares a stand-in; Run runs it. The kinds must be served by then.
func New(config *rest.Config) (*Cloud, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the stand-in for a cloud: %w", err)
	}
	return &Cloud{
		client:    client,
		informers: map[string]cache.SharedIndexInformer{},
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[item]()),
		due:       map[work]time.Time{},
	}, nil
}

// Run answers what is asked of the cloud until the context ends, and returns
// when all that it started has ended. It may be called once.
func (c *Cloud) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, plural := range resources {
		informer := dynamicinformer.NewFilteredDynamicInformer(c.client, resource(plural), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		c.informers[plural] = informer
		add := func(o any) {
			if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
				c.queue.Add(item{plural, key})
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    add,
			UpdateFunc: func(_, o any) { add(o) },
		})
		if err != nil {
			panic("an informer that has not started takes handlers: " + err.Error())
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	for {
		next, ended := c.queue.Get()
		if ended {
			return
		}
		if err := c.answer(ctx, next); err != nil {
			c.queue.AddRateLimited(next)
		} else {
			c.queue.Forget(next)
		}
		c.queue.Done(next)
	}
}

// answer does what is next for one object: say that work on it has begun, wait
// until it is done, say so.
func (c *Cloud) answer(ctx context.Context, next item) error {
	found, exists, err := c.informers[next.resource].GetStore().GetByKey(next.key)
	if err != nil || !exists {
		return err
	}
	o, _ := found.(*unstructured.Unstructured)
	if o == nil || o.GetDeletionTimestamp() != nil || done(o) {
		return nil
	}
	job := work{o.GetUID(), o.GetGeneration()}
	due, begun := c.due[job]
	if !begun {
		if err := c.write(ctx, next.resource, o, beginning(o, time.Now())); err != nil {
			return err
		}
		due = time.Now().Add(delay(o))
		c.due[job] = due
	}
	if left := time.Until(due); left > 0 {
		c.queue.AddAfter(next, left)
		return nil
	}
	if err := c.write(ctx, next.resource, o, finished(o, time.Now())); err != nil {
		return err
	}
	delete(c.due, job)
	return nil
}

// write changes an object's status; one that is gone, or of which only a
// successor is there, has none.
func (c *Cloud) write(ctx context.Context, plural string, o *unstructured.Unstructured, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID()}, "status": status})
	if err != nil {
		return err
	}
	_, err = c.client.Resource(resource(plural)).Namespace(o.GetNamespace()).
		Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// MoveEndpoint gives a control plane another endpoint, as clouds do on their own
// account, and returns when the API server has answered.
func (c *Cloud) MoveEndpoint(ctx context.Context, namespace, name, endpoint string) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"endpoint": endpoint}})
	if err != nil {
		return nil, err
	}
	return c.client.Resource(resource("controlplanes")).Namespace(namespace).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
}
