package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// sandboxDemo is the demo in a simulated cloud of this process.
type sandboxDemo struct{ cloud *cloud.Cloud }

func (d *sandboxDemo) start(context.Context, *demoStory) (managed.Provider, string, error) {
	d.cloud = cloud.New(cloud.Options{Behaviours: sandbox.TypicalBehaviours()})
	return sandbox.Provider(d.cloud), "a small cloud", nil
}

func (*sandboxDemo) configuration() []*unstructured.Unstructured { return nil }

func (*sandboxDemo) folder() string { return "eks-with-vpc" }

func (*sandboxDemo) limit() time.Duration { return 60 * time.Second }

func (*sandboxDemo) next() (command, text string) {
	return "espalier up --sandbox", "runs the same permanently"
}

func (*sandboxDemo) hasGroup(group string) bool { return group == v1alpha1.GroupVersion.Group }

func (d *sandboxDemo) countLeft(context.Context) (int, error) {
	return len(d.cloud.Admin().Resources()), nil
}

// changeBottom scales the cluster, which the cloud may do, and requests a reconcile of it. It
// measures the time from the response to that request to the event with the change in the status
// of the top.
func (d *sandboxDemo) changeBottom(ctx context.Context, s *demoStory) (string, error) {
	events, err := s.watchTop(ctx)
	if err != nil {
		return "", err
	}
	defer events.Stop()
	if err := d.scale(); err != nil {
		return "", err
	}
	if err := s.requestReconcile(ctx, schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "Cluster"}); err != nil {
		return "", err
	}
	took := timeUntil(ctx, events, func(e watch.Event) bool { return nodesOf(e) == scaledTo })
	if err := s.await(ctx, func(w observe.ClusterState) bool { return shownNodes(w.Root) == scaledTo }); err != nil {
		return "", err
	}
	arrived := <-took
	if arrived.err != nil {
		return "", arrived.err
	}
	return fmt.Sprintf("in the top's status after %s", milliseconds(arrived.after)), nil
}

// scale changes the cluster in the cloud, behind the back of the controllers.
func (d *sandboxDemo) scale() error {
	for _, r := range d.cloud.Admin().Resources() {
		if r.Type == cloud.TypeCluster {
			r.Properties.Nodes = scaledTo
			return d.cloud.Admin().Change(r.Key, r.Properties)
		}
	}
	return errors.New("there is no cluster in the cloud")
}
