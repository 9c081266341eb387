package watches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definitions = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// lifecycle creates and deletes kinds of the same names, in the same group, repeatedly.
type lifecycle struct {
	client    dynamic.Interface
	group, ns string
}

func (p *lifecycle) expand(yaml string) string {
	id, _, _ := strings.Cut(p.group, ".")
	return strings.NewReplacer("$GROUP", p.group, "$NS", p.ns, "$ID", id).Replace(yaml)
}

// leafKind is the kind of a child of the definition.
var leafKind = strings.ReplaceAll(suite.SubnetCRD, "$GROUP", "leaf.$GROUP")

const vpcDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-vpc}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Vpc
    group: $GROUP
    spec: {cidr: string | default="10.0.0.0/8"}
    status: {subnet: "${subnet.status.id}"}
  resources:
    - id: subnet
      template:
        apiVersion: leaf.$GROUP/v1alpha1
        kind: Subnet
        metadata: {name: "${schema.metadata.name}"}
        spec: {cidr: "${schema.spec.cidr}"}
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}-note"}
        data: {subnet: "${subnet.status.id}"}
`

func (p *lifecycle) vpcResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: "vpcs"}
}

func (p *lifecycle) vpcs() dynamic.ResourceInterface {
	return p.client.Resource(p.vpcResource()).Namespace(p.ns)
}

func (p *lifecycle) subnets() dynamic.ResourceInterface {
	return p.client.Resource(schema.GroupVersionResource{Group: "leaf." + p.group, Version: "v1alpha1", Resource: "subnets"}).Namespace(p.ns)
}

func (p *lifecycle) notes() dynamic.ResourceInterface {
	return p.client.Resource(configMaps).Namespace(p.ns)
}

// Names of the cluster-scoped parts.
func (p *lifecycle) leafName() string       { return p.expand("subnets.leaf.$GROUP") }
func (p *lifecycle) kindName() string       { return p.expand("vpcs.$GROUP") }
func (p *lifecycle) definitionName() string { return p.expand("$ID-vpc") }

// create creates the leaf's kind, the definition and instances, and waits until these show the
// status of their leaves.
func (p *lifecycle) create(ctx context.Context, t *testing.T, instances ...string) error {
	if err := p.apply(ctx, t, p.client.Resource(crds), leafKind); err != nil {
		return fmt.Errorf("leaf kind: %w", err)
	}
	if err := p.apply(ctx, t, p.client.Resource(definitions), vpcDefinition); err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	if err := await(ctx, p.client.Resource(definitions), p.definitionName(), testkit.IsReady); err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	for _, name := range instances {
		if err := p.apply(ctx, t, p.vpcs(), "apiVersion: $GROUP/v1alpha1\nkind: Vpc\nmetadata: {name: "+name+", namespace: $NS}\n"); err != nil {
			return fmt.Errorf("instance %s: %w", name, err)
		}
	}
	for i, name := range instances {
		if err := p.setStatus(ctx, name, fmt.Sprint("subnet-", i)); err != nil {
			return fmt.Errorf("instance %s: %w", name, err)
		}
	}
	return nil
}

// setStatus writes the leaf's status, as its controller does, and waits until the instance shows
// it.
func (p *lifecycle) setStatus(ctx context.Context, name, id string) error {
	if err := await(ctx, p.subnets(), name, exists); err != nil {
		return fmt.Errorf("leaf: %w", err)
	}
	patch := fmt.Sprintf(`{"status":{"id":%q}}`, id)
	if _, err := p.subnets().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of the leaf: %w", err)
	}
	return await(ctx, p.vpcs(), name, func(o *unstructured.Unstructured) error {
		if err := testkit.IsReady(o); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, "status", "subnet"); got != id {
			return fmt.Errorf("status.subnet is %q, not %q", got, id)
		}
		return nil
	})
}

func exists(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

// await watches an object until the check passes. The check gets nil while the object does not exist
// or its kind is not served.
func await(ctx context.Context, of dynamic.ResourceInterface, name string, check func(*unstructured.Unstructured) error) error {
	var seen *unstructured.Unstructured
	list := func() error {
		return testkit.AwaitList(ctx, of, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, func(objects map[string]*unstructured.Unstructured) error {
			seen = nil
			for _, o := range objects {
				seen = o
			}
			return check(seen)
		})
	}
	err := retryUntilServed(ctx, list)
	if apierrors.IsNotFound(err) && check(nil) == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, testkit.JSON(seen))
	}
	return nil
}

// retryUntilServed repeats a request for as long as the API server does not serve the kind
// yet, which it does a moment after that is established.
func retryUntilServed(ctx context.Context, do func() error) error {
	var err error
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = wait.PollUntilContextCancel(limited, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		err = do()
		return !apierrors.IsNotFound(err), nil
	})
	return err
}

func (p *lifecycle) apply(ctx context.Context, t *testing.T, to dynamic.ResourceInterface, yaml string) error {
	for _, o := range testkit.Parse(t, p.expand(yaml)) {
		err := retryUntilServed(ctx, func() error {
			_, err := to.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// part is what can be deleted in an order of its own.
type part string

const (
	leaf       part = "leaf kind"
	kind       part = "kind"
	definition part = "definition"
	instances  part = "instances"
)

// deletionOrders are all orders in which the parts can be deleted; the last is empty, which stands
// for all at once.
func deletionOrders() [][]part {
	var out [][]part
	var extend func(done, left []part)
	extend = func(done, left []part) {
		if len(left) == 0 {
			out = append(out, done)
		}
		for i, next := range left {
			extend(append(slices.Clone(done), next), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	extend(nil, []part{leaf, kind, definition, instances})
	return append(out, nil)
}

// drop deletes a part. It returns when the part is deleted, unless that waits for another part.
func (p *lifecycle) drop(ctx context.Context, which part, dropped []part) error {
	switch which {
	case leaf:
		return remove(ctx, p.client.Resource(crds), p.leafName(), true)
	case kind:
		return remove(ctx, p.client.Resource(crds), p.kindName(), true)
	case definition:
		return remove(ctx, p.client.Resource(definitions), p.definitionName(), slices.Contains(dropped, instances) || slices.Contains(dropped, kind))
	default:
		for _, name := range []string{"a", "b"} {
			if err := remove(ctx, p.vpcs(), name, true); err != nil {
				return err
			}
		}
		return nil
	}
}

// remove deletes an object. With wait it returns when the object with this UID is deleted.
func remove(ctx context.Context, of dynamic.ResourceInterface, name string, wait bool) error {
	o, err := of.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = of.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil || !wait {
		return err
	}
	if o.GetKind() == "CustomResourceDefinition" {
		touching, stop := context.WithCancel(ctx)
		defer stop()
		go testkit.TouchCRD(touching, of, name)
	}
	return gone(ctx, of, name, func(o *unstructured.Unstructured) bool { return o.GetUID() != uid })
}

// gone waits until an object is deleted; another object of the name, by the function, counts as that.
func gone(ctx context.Context, of dynamic.ResourceInterface, name string, another func(*unstructured.Unstructured) bool) error {
	var left *unstructured.Unstructured
	err := testkit.AwaitList(ctx, of, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, func(objects map[string]*unstructured.Unstructured) error {
		for _, o := range objects {
			if left = o; !another(o) {
				return errors.New("still exists")
			}
		}
		return nil
	})
	if err == nil || apierrors.IsNotFound(err) { // its kind is not served
		return nil
	}
	return fmt.Errorf("%w\n%s", err, testkit.JSON(left))
}

// sameName waits for the deletion of every object of the name.
func sameName(*unstructured.Unstructured) bool { return false }

// awaitGone waits until all parts and children are deleted.
func (p *lifecycle) awaitGone(ctx context.Context) error {
	for _, part := range []struct {
		of   dynamic.ResourceInterface
		name string
	}{
		{p.client.Resource(definitions), p.definitionName()},
		{p.client.Resource(crds), p.kindName()},
		{p.client.Resource(crds), p.leafName()},
		{p.notes(), "a-note"},
		{p.notes(), "b-note"},
	} {
		if err := gone(ctx, part.of, part.name, sameName); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
