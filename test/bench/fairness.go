package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const (
	// fewChanges is the number of changes of the tenant that makes one after the other, without the other tenant.
	fewChanges = 200
	// maxSlowdown bounds the p99 of these changes beside the other tenant, as a multiple of that without.
	maxSlowdown = 4
)

// measureFairness measures the changes that one tenant makes one after the other, alone, and while another
// tenant changes all of its instances at once.
func measureFairness(ctx context.Context, b *bench) (err error) {
	few, err := b.tenant("tenant-few")
	if err != nil {
		return err
	}
	many, err := b.tenant("tenant-many")
	if err != nil {
		return err
	}
	for _, t := range []tenant{few, many} {
		if err := t.begin(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err := few.create(ctx, 1); err != nil {
		return err
	}
	n := b.tenantChanges()
	if err := many.create(ctx, n); err != nil {
		return err
	}
	if _, err := few.changeUntil(ctx, fewChanges/4, nil); err != nil { // warms up
		return err
	}
	alone, err := few.changeUntil(ctx, fewChanges, nil)
	if err != nil {
		return err
	}
	var beside []time.Duration
	done, began := make(chan struct{}), time.Now()
	var took time.Duration
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(done)
		err := many.changeAll(running, n)
		took = time.Since(began)
		return err
	})
	g.Go(func() (err error) {
		beside, err = few.changeUntil(running, n, done)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	p99 := func(of []time.Duration) float64 { return milliseconds(quantile(of, 0.99)) }
	b.add(row{
		Work: fmt.Sprintf("one tenant changes a single instance, beside %d changes of another tenant, p99", n), Unit: "× alone",
		Value: p99(beside) / p99(alone), Budget: maxSlowdown, Samples: inMilliseconds(beside),
		Detail: fmt.Sprintf("%d changes beside: median %.0f ms, p99 %.0f ms; %d alone: median %.0f ms, p99 %.0f ms; those of the other tenant took %.1f ms each",
			len(beside), milliseconds(median(beside)), p99(beside), len(alone), milliseconds(median(alone)), p99(alone), milliseconds(took)/float64(n)),
	})
	return nil
}

// tenantChanges is the number of changes that a tenant makes at once.
func (o *options) tenantChanges() int {
	if o.full {
		return 10_000
	}
	return 1_000
}

// tenant has instances in a namespace of its own, with five ConfigMaps each.
type tenant struct {
	*bench
	namespace string
	instances dynamic.ResourceInterface
	seen      *watchStream
	// wording counts the changes of its instances, each of which has another text.
	wording int
}

func (b *bench) tenant(namespace string) (tenant, error) {
	client, err := b.anotherClient()
	if err != nil {
		return tenant{}, err
	}
	of := client.Resource(ours("flats")).Namespace(namespace)
	return tenant{b, namespace, of, &watchStream{of: of, resource: "flats", timeout: b.waitTimeout()}, 1}, nil
}

// begin creates the namespace, and watches its instances.
func (t *tenant) begin(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(t.plane.Config())
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	return t.seen.open(ctx)
}

// end deletes the instances.
func (t *tenant) end(ctx context.Context) error {
	defer t.seen.stop()
	all, err := t.instances.List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := t.seen.awaitAll(ctx, len(all.Items), isGone)
		return err
	})
	g.Go(func() error { return t.instances.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) })
	return g.Wait()
}

// create creates n instances, and waits until they are ready.
func (t *tenant) create(ctx context.Context, n int) error {
	return t.forEach(ctx, n, func(ctx context.Context, i int) error {
		o := instance("Flat", numberedName("flat", i))
		o.SetNamespace(t.namespace)
		_, err := t.instances.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
		return err
	})
}

// changeAll changes n instances, and waits until they are ready again.
func (t *tenant) changeAll(ctx context.Context, n int) error {
	t.wording++
	return t.forEach(ctx, n, t.change)
}

// change changes one instance.
func (t *tenant) change(ctx context.Context, i int) error {
	name := numberedName("flat", i)
	patch := fmt.Appendf(nil, `{"spec":{"text":%q}}`, text(name, t.wording))
	_, err := t.instances.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}

// forEach calls do for n instances, and waits until they are ready in the latest wording.
func (t *tenant) forEach(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := t.seen.awaitAll(ctx, n, isReady(int64(t.wording)))
		return err
	})
	g.Go(func() error { return concurrently(ctx, t.workers, n, do) })
	return g.Wait()
}

// changeUntil changes the first instance time after time, at most n times and until done is closed, and returns how
// long it took each time from before the request until the instance was ready again.
func (t *tenant) changeUntil(ctx context.Context, n int, done <-chan struct{}) ([]time.Duration, error) {
	var out []time.Duration
	for range n {
		select {
		case <-done:
			return out, nil
		default:
		}
		began := time.Now()
		if err := t.changeAll(ctx, 1); err != nil {
			return nil, err
		}
		out = append(out, time.Since(began))
	}
	return out, nil
}
