package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	program "github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/manager/membership"
	"github.com/espalier-dev/espalier/internal/server"
)

const (
	// replicaVariable has the kubeconfig of a process that is to be one of several replicas of the controllers.
	replicaVariable = "ESPALIER_BENCH_REPLICA"
	// shardedInstances are spread over shardedNamespaces.
	shardedInstances, shardedNamespaces = 1000, 100
	// laterInstances are created once another replica has taken over.
	laterInstances = 300
	// shardedName and laterName begin the names of the instances.
	shardedName, laterName = "sharded", "later"
	// replicaLease is the duration of the Leases, and takeoverTime what a takeover may take in addition.
	replicaLease, takeoverTime = 15 * time.Second, 5 * time.Second
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// runReplica is the main function of a process of the controllers.
func runReplica(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	m, err := server.NewManager(server.ManagerOptions{
		Options: program.Options{
			Name: "espalier", Version: "bench", Config: config, Log: logr.Discard(), HealthAddress: "0", MetricsAddress: "0",
			Sharding: true, LeaderElectionNamespace: metav1.NamespaceSystem, LeaseDuration: replicaLease,
		},
		Workers: 16,
	})
	if err != nil {
		return err
	}
	go serveHeap(os.Stdin, os.Stdout)
	return m.Run(ctx)
}

// serveHeap answers each line with the bytes of the heap that are in use after a collection, until the input ends.
func serveHeap(in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		runtime.GC()
		runtime.GC() // what the first one found to be finalized
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_, _ = fmt.Fprintln(out, m.HeapAlloc)
	}
}

// replicaProcess is a process of runReplica.
type replicaProcess struct {
	*exec.Cmd
	stdin  io.Writer
	stdout *bufio.Scanner
}

func startReplica(ctx context.Context, kubeconfig string) (*replicaProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := exec.CommandContext(ctx, self)
	p.Env, p.Stderr = append(os.Environ(), replicaVariable+"="+kubeconfig), os.Stderr
	stdin, err := p.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &replicaProcess{p, stdin, bufio.NewScanner(stdout)}, p.Start()
}

// heap is the heap of the process that is in use, in MiB.
func (p *replicaProcess) heap() (float64, error) {
	if _, err := fmt.Fprintln(p.stdin); err != nil {
		return 0, err
	}
	if !p.stdout.Scan() {
		return 0, errors.Join(errors.New("a replica did not answer"), p.stdout.Err())
	}
	bytes, err := strconv.ParseFloat(p.stdout.Text(), 64)
	return bytes / (1 << 20), err
}

// measureReplicas runs one, two and three replicas of the controllers, as processes. It measures the requests of fresh
// instances, the memory of each replica, and how long the others take to take over from one that is killed.
func measureReplicas(ctx context.Context, b *bench) (err error) {
	if err := b.stopEngine(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.startEngine(ctx)) }()
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	for i := range shardedNamespaces {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		o.SetName(shardedNamespace(i))
		if _, err := b.client.Resource(namespaces).Create(ctx, o, metav1.CreateOptions{FieldManager: manager}); err != nil {
			return err
		}
	}
	for n := 1; n <= 3; n++ {
		if err := b.measureReplicated(ctx, n); err != nil {
			return fmt.Errorf("%d replicas: %w", n, err)
		}
	}
	return nil
}

func shardedNamespace(i int) string { return fmt.Sprintf("tenant-%d", i%shardedNamespaces) }

func (b *bench) measureReplicated(ctx context.Context, n int) error {
	var processes []*replicaProcess
	defer func() {
		for _, p := range processes {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	}()
	for range n {
		p, err := startReplica(ctx, b.plane.Kubeconfig())
		if err != nil {
			return err
		}
		processes = append(processes, p)
	}
	if err := b.awaitReplicas(ctx, n); err != nil {
		return err
	}
	w := &watchStream{of: b.client.Resource(ours("flats")), resource: "flats", timeout: b.waitTimeout()}
	if err := w.open(ctx); err != nil {
		return err
	}
	defer w.stop()
	before, err := heaps(processes)
	if err != nil {
		return err
	}
	if err := b.createSharded(ctx, w, processes, before); err != nil {
		return err
	}
	if n > 1 {
		if err := b.measureTakeover(ctx, w, n, processes[0]); err != nil {
			return err
		}
	}
	return b.deleteFlats(ctx, w, shardedName, shardedInstances)
}

// awaitReplicas waits until all replicas have the same view.
func (b *bench) awaitReplicas(ctx context.Context, n int) error {
	w := &watchStream{of: labelled{b.client.Resource(leases).Namespace(metav1.NamespaceSystem), membership.GroupLabel}, resource: "leases", timeout: b.waitTimeout()}
	if err := w.open(ctx); err != nil {
		return err
	}
	defer w.stop()
	views := map[string]string{}
	_, err := w.await(ctx, func(t watch.EventType, o *unstructured.Unstructured) bool {
		if views[o.GetName()] = o.GetAnnotations()["espalier.dev/view"]; t == watch.Deleted {
			delete(views, o.GetName())
		}
		agreed := 0
		for _, view := range views {
			if len(strings.Fields(view)) == n {
				agreed++
			}
		}
		return agreed == n
	})
	return err
}

// labelled are the objects of a resource that have a label.
type labelled struct {
	dynamic.ResourceInterface
	label string
}

func (l labelled) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = l.label
	return l.ResourceInterface.Watch(ctx, o)
}

func (b *bench) createSharded(ctx context.Context, w *watchStream, processes []*replicaProcess, before []float64) error {
	n := len(processes)
	perInstance, took, err := b.createFlats(ctx, w, shardedName, shardedInstances, fmt.Sprintf("create %d instances with %d replicas", shardedInstances, n))
	if err != nil {
		return err
	}
	var memory []string
	for _, p := range processes {
		mebibytes, err := resident(p.Process.Pid)
		if err != nil {
			return err
		}
		memory = append(memory, fmt.Sprintf("%.0f", mebibytes))
	}
	after, err := heaps(processes)
	if err != nil {
		return err
	}
	var grown []string
	for i := range after {
		grown = append(grown, fmt.Sprintf("%.1f", after[i]-before[i]))
	}
	b.add(row{Work: fmt.Sprintf("a fresh instance with %d replicas", n), Unit: "requests", Value: perInstance, Budget: 7.05,
		Detail: fmt.Sprintf("%d instances in %d namespaces at once: %.1f s; then each replica has %s MiB of resident memory, and the heap in use has grown by %s MiB", shardedInstances, shardedNamespaces, took.Seconds(), strings.Join(memory, ", "), strings.Join(grown, ", "))})
	return nil
}

// createFlats creates instances at once, and returns the requests of the controllers for each one, and how long it took
// until all were ready.
func (b *bench) createFlats(ctx context.Context, w *watchStream, name string, count int, what string) (perInstance float64, took time.Duration, err error) {
	r, err := b.countRequests(ctx, what, count, requests{{"POST", "flats"}: count}, func() error {
		began := time.Now()
		if err := concurrently(ctx, b.workers, count, func(ctx context.Context, i int) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1alpha1", "kind": "Flat", "spec": map[string]any{"text": "first"}}}
			o.SetName(numberedName(name, i))
			_, err := b.client.Resource(ours("flats")).Namespace(shardedNamespace(i)).Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
			return err
		}); err != nil {
			return err
		}
		last, err := w.awaitAll(ctx, count, named(name, isReady(1)))
		took = last.Sub(began)
		return err
	})
	return float64(r.of(work)) / float64(count), took, err
}

// named checks objects whose name begins with a text.
func named(prefix string, next check) check {
	return func(t watch.EventType, o *unstructured.Unstructured) bool {
		return strings.HasPrefix(o.GetName(), prefix) && next(t, o)
	}
}

// heaps are the heaps of processes that are in use, in MiB.
func heaps(of []*replicaProcess) (all []float64, err error) {
	for _, p := range of {
		mebibytes, err := p.heap()
		if err != nil {
			return nil, err
		}
		all = append(all, mebibytes)
	}
	return all, nil
}

// measureTakeover kills a replica, changes an instance in each namespace, and waits until all are reconciled. Then it
// measures the requests of fresh instances.
func (b *bench) measureTakeover(ctx context.Context, w *watchStream, n int, killed *replicaProcess) error {
	began := time.Now()
	if err := killed.Process.Kill(); err != nil {
		return err
	}
	if err := concurrently(ctx, b.workers, shardedNamespaces, func(ctx context.Context, i int) error {
		_, err := b.client.Resource(ours("flats")).Namespace(shardedNamespace(i)).Patch(ctx, numberedName(shardedName, i), types.MergePatchType, []byte(`{"spec":{"text":"second"}}`), metav1.PatchOptions{FieldManager: manager})
		return err
	}); err != nil {
		return err
	}
	last, err := w.awaitAll(ctx, shardedNamespaces, isReady(2))
	if err != nil {
		return err
	}
	b.add(row{Work: fmt.Sprintf("take over from one of %d replicas that is killed", n), Unit: "ms", Value: milliseconds(last.Sub(began)), Budget: milliseconds(replicaLease + takeoverTime),
		Detail: fmt.Sprintf("until an instance of each namespace is reconciled again; its Lease expires after %s", replicaLease)})
	perInstance, _, err := b.createFlats(ctx, w, laterName, laterInstances, fmt.Sprintf("create %d instances with %d replicas, after one was killed", laterInstances, n-1))
	if err != nil {
		return err
	}
	b.add(row{Work: fmt.Sprintf("a fresh instance with %d replicas, after one was killed", n-1), Unit: "requests", Value: perInstance, Budget: 6.05,
		Detail: fmt.Sprintf("%d instances in %d namespaces at once", laterInstances, shardedNamespaces)})
	return b.deleteFlats(ctx, w, laterName, laterInstances)
}

func (b *bench) deleteFlats(ctx context.Context, w *watchStream, name string, count int) error {
	if err := concurrently(ctx, b.workers, count, func(ctx context.Context, i int) error {
		return b.client.Resource(ours("flats")).Namespace(shardedNamespace(i)).Delete(ctx, numberedName(name, i), metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	_, err := w.awaitAll(ctx, count, named(name, isGone))
	return err
}
