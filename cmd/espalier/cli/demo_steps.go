package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/examples"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// The example's top, and how many nodes its cluster is scaled to in the cloud.
const (
	demoKind, demoName = "eksclusterwithvpc", "demo"
	scaledTo           = 5
)

// What somebody does with kubectl: the number of nodes of the EksCluster, which its definition sets, and a finalizer on the network.
const (
	overwrittenNodes = 9
	heldBy           = "example.com/backup"
)

// up runs 'espalier up' until the end of the demo.
func (d *demo) up(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "espalier-demo-")
	if err != nil {
		return "", fmt.Errorf("create a data directory: %w", err)
	}
	d.dir = dir
	d.addCleanup(func() { _ = os.RemoveAll(dir) }) // the system clears its temporary directory otherwise
	f := &upFlags{}
	f.embedded.NoFsync = true
	flags, objects, err := d.cloud.start(ctx, d, f)
	if err != nil {
		return "", err
	}
	d.objects, d.flags.output, d.flags.cluster.kubeconfig = objects, tableOutput, filepath.Join(dir, "kubeconfig")
	up := f.command()
	flags = append(flags, "--data-dir="+filepath.Join(dir, "data"), "--write-kubeconfig="+d.flags.cluster.kubeconfig, "--introspection-socket=0")
	d.printLine("$ espalier up %s", strings.Join(flags[:len(flags)-3], " "))
	up.SetArgs(flags)
	output, written := io.Pipe()
	up.SetOut(written)
	up.SetErr(d.log)
	up.SilenceErrors, up.SilenceUsage = true, true
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := up.ExecuteContext(running)
		_ = written.CloseWithError(io.EOF)
		ended <- err
	}()
	d.addCleanup(func() { stop(); <-ended })
	go func() { <-ctx.Done(); _ = output.CloseWithError(context.Cause(ctx)) }()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if lines.Text() == "ready" {
			d.cluster, err = d.newCluster()
			return "they run", err
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	err = <-ended
	ended <- err // for the cleanup
	return "", errors.Join(errors.New("espalier up ended; --log FILE has its output"), err)
}

func (d *demo) newCluster() (*reader.Cluster, error) {
	config, err := d.flags.cluster.config()
	if err != nil {
		return nil, err
	}
	return reader.New(config)
}

// define applies the three definitions, and waits until they are ready.
func (d *demo) define(ctx context.Context) (string, error) {
	if err := d.apply(ctx, d.objects...); err != nil {
		return "", err
	}
	definitions, err := d.manifests(ctx, "[1-3]-*.yaml")
	if err != nil {
		return "", err
	}
	for _, o := range definitions {
		if err := d.watch(ctx, io.Discard, "rgd", o.GetName(), func(w observe.ClusterState) bool {
			return w.Root != nil && health.Instance(w.Root).Ready
		}); err != nil {
			return "", err
		}
	}
	return "their kinds are served", nil
}

// create creates the top, and shows its tree until everything below it is ready.
func (d *demo) create(ctx context.Context) (string, error) {
	if _, err := d.manifests(ctx, "4-*.yaml"); err != nil {
		return "", err
	}
	d.printLine("$ espalier tree %s %s --watch", demoKind, demoName)
	err := d.watch(ctx, d.cmd.OutOrStdout(), demoKind, demoName, func(w observe.ClusterState) bool {
		rows := rowsOf(w, time.Now())
		d.count = len(rows)
		for _, r := range rows {
			if r.Ready != observe.True {
				return false
			}
		}
		return w.Root != nil
	})
	return fmt.Sprintf("%d objects are ready", d.count), err
}

// overwrite changes the middle layer with kubectl, and shows the event of its correction.
func (d *demo) overwrite(ctx context.Context) (string, error) {
	patch := fmt.Sprintf(`{"spec":{"nodes":%d}}`, overwrittenNodes)
	d.printLine("$ kubectl patch ekscluster %s --type=merge \\\n    -p '%s'", demoName, patch)
	begun := time.Now()
	if err := d.patch(ctx, schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "EksCluster"}, types.MergePatchType, patch); err != nil {
		return "", err
	}
	d.printLine("$ kubectl get events --field-selector=reason=DriftCorrected \\\n    -o jsonpath='{.items[0].message}'")
	events := d.cluster.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(metav1.NamespaceDefault)
	for {
		found, err := events.List(ctx, metav1.ListOptions{FieldSelector: "reason=DriftCorrected"})
		if err != nil {
			return "", err
		}
		if len(found.Items) > 0 {
			message, _, _ := unstructured.NestedString(found.Items[0].Object, "message")
			fmt.Fprintf(prose(d.cmd.OutOrStdout()), "%s\n", message)
			return fmt.Sprintf("corrected within %d ms", time.Since(begun).Milliseconds()), nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return "", context.Cause(ctx)
		}
	}
}

// deleteHeld deletes the top while a finalizer holds the network, shows what 'espalier why' says, and lets go.
func (d *demo) deleteHeld(ctx context.Context) (string, error) {
	kind, name := d.cloud.network()
	held, err := d.get(ctx, kind)
	if err != nil {
		return "", err
	}
	last := len(held.GetFinalizers()) // once the finalizer is added, which comes after the provider's own
	patch := func(operation string) error {
		d.printLine("$ kubectl patch %s %s --type=json \\\n    -p '%s'", name, demoName, operation)
		return d.patch(ctx, kind, types.JSONPatchType, operation)
	}
	if err := patch(`[{"op":"add","path":"/metadata/finalizers/-","value":"` + heldBy + `"}]`); err != nil {
		return "", err
	}
	d.printLine("$ espalier delete %s %s", demoKind, demoName)
	cmd := *d.cmd
	cmd.SetContext(ctx)
	if err := deleteInstance(&cmd, deleteFlags{instanceFlags: d.flags, cascade: "background"}, demoKind, demoName); err != nil {
		return "", err
	}
	if err := d.watch(ctx, io.Discard, demoKind, demoName, isHeld); err != nil {
		return "", err
	}
	d.printLine("$ espalier why %s %s", demoKind, demoName)
	var notReady *codedError
	if err := why(&cmd, whyFlags{instanceFlags: d.flags}, []string{demoKind, demoName}); err != nil && !errors.As(err, &notReady) {
		return "", err
	}
	d.pause(ctx)
	if err := patch(fmt.Sprintf(`[{"op":"remove","path":"/metadata/finalizers/%d"}]`, last)); err != nil {
		return "", err
	}
	d.printLine("$ espalier delete %s %s --watch", demoKind, demoName)
	begun := time.Now()
	if err := deleteInstance(&cmd, deleteFlags{instanceFlags: d.flags, watch: true, cascade: "background"}, demoKind, demoName); err != nil {
		return "", err
	}
	took := time.Since(begun)
	return fmt.Sprintf("all %d objects are gone %.1f s later", d.count, took.Seconds()), d.awaitNothingLeft(ctx)
}

// isHeld says whether the tree shows a finalizer that blocks the deletion.
func isHeld(w observe.ClusterState) bool {
	return slices.ContainsFunc(rowsOf(w, time.Now()), func(r observe.Row) bool { return r.Reason == string(report.HeldByFinalizer) })
}

// awaitNothingLeft waits until no external resource is recorded. The records end a moment after the objects.
func (d *demo) awaitNothingLeft(ctx context.Context) error {
	bindings := d.cluster.Client.Resource(schema.GroupVersionResource{Group: "espalier.dev", Version: "v1alpha1", Resource: "bindings"})
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	for {
		left, err := bindings.List(ctx, metav1.ListOptions{})
		switch {
		case err == nil && len(left.Items) == 0:
			return nil
		case !pause(ctx, 50*time.Millisecond) && err == nil:
			return fmt.Errorf("the top is gone, but %d external resources are left", len(left.Items))
		case err != nil:
			return err
		}
	}
}

// watch shows a tree as 'espalier tree --watch' does, until it is as wanted.
func (d *demo) watch(ctx context.Context, to io.Writer, kind, name string, wanted func(observe.ClusterState) bool) error {
	flags := d.flags
	if kind == demoKind {
		flags.namespace = metav1.NamespaceDefault
	}
	shown, err := flags.find(ctx, io.Discard, kind, name)
	if err != nil {
		return err
	}
	errWanted := errors.New("as wanted")
	err = shown.watch(ctx, func(ctx context.Context, states <-chan observe.ClusterState) error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		seen := make(chan observe.ClusterState)
		screen, onScreen := terminal(to)
		go func() {
			reached := false
			_ = forEachState(ctx, states, func(w observe.ClusterState) error {
				select {
				case seen <- w:
				case <-ctx.Done():
				}
				if !reached && wanted(w) {
					reached = true
					time.AfterFunc(pace(onScreen), func() { stop(errWanted) })
				}
				return nil
			})
		}()
		if onScreen {
			err := treeScreen(ctx, screen, shown.target.String(), seen)
			if err == nil && ctx.Err() == nil {
				return errInterrupted // by a key
			}
			return errors.Join(err, context.Cause(ctx))
		}
		return treeLines(ctx, to, seen)
	})
	if errors.Is(err, errWanted) {
		return nil
	}
	return err
}

// pause leaves time to read what was printed.
func (d *demo) pause(ctx context.Context) {
	_, onScreen := terminal(d.cmd.OutOrStdout())
	pause(ctx, pace(onScreen))
}

// pace is how long a screen shows a result before the demo goes on.
func pace(onScreen bool) time.Duration {
	if onScreen {
		return 2500 * time.Millisecond
	}
	return 0
}

// manifests applies the objects of the example's files that match, and returns them.
func (d *demo) manifests(ctx context.Context, pattern string) ([]*unstructured.Unstructured, error) {
	objects, err := readObjects(examples.EKSWithVPC, d.cloud.folder()+"/"+pattern)
	if err != nil {
		return nil, err
	}
	d.printLine("$ kubectl apply -f examples/%s/%s", d.cloud.folder(), pattern)
	return objects, d.apply(ctx, objects...)
}

// readObjects reads the objects of all YAML files that match, one in each, in the order of their names.
func readObjects(files fs.FS, pattern string) (out []*unstructured.Unstructured, err error) {
	names, err := fs.Glob(files, pattern)
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, o)
	}
	return out, err
}

// apply applies objects as kubectl would, once their kinds are served: a client finds them a moment after they are ready.
func (d *demo) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		for {
			mapping, err := d.cluster.Kinds.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
			if err == nil {
				_, err = d.cluster.Client.Resource(mapping.Resource).Namespace(o.GetNamespace()).Apply(ctx, o.GetName(), o,
					metav1.ApplyOptions{FieldManager: "espalier-demo"})
			}
			if err == nil {
				break
			}
			if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) || !pause(ctx, 50*time.Millisecond) {
				return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// requestReconcile requests a reconcile of an object of the example.
func (d *demo) requestReconcile(ctx context.Context, kind schema.GroupKind) error {
	return d.patch(ctx, kind, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, resource.ReconcileRequestedAtAnnotation))
}

// patch patches an object of the example as kubectl does.
func (d *demo) patch(ctx context.Context, kind schema.GroupKind, patchType types.PatchType, patch string) error {
	objects, err := d.objectsOf(kind)
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, demoName, patchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-patch"})
	return err
}

func (d *demo) get(ctx context.Context, kind schema.GroupKind) (*unstructured.Unstructured, error) {
	objects, err := d.objectsOf(kind)
	if err != nil {
		return nil, err
	}
	return objects.Get(ctx, demoName, metav1.GetOptions{})
}

func (d *demo) objectsOf(kind schema.GroupKind) (dynamic.ResourceInterface, error) {
	mapping, err := d.cluster.Kinds.RESTMapping(kind)
	if err != nil {
		return nil, err
	}
	return d.cluster.Client.Resource(mapping.Resource).Namespace(metav1.NamespaceDefault), nil
}
