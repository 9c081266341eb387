package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

var (
	deploymentKind     = appsv1.SchemeGroupVersion.WithKind("Deployment")
	serviceKind        = corev1.SchemeGroupVersion.WithKind("Service")
	serviceAccountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
)

// Deployments runs programs as Deployments of the cluster.
type Deployments struct {
	Cluster      Cluster
	Certificates *Certificates
	Namespace    string
	Now          func() time.Time
}

var _ Runtime = (*Deployments)(nil)

// Start implements Runtime.
func (d *Deployments) Start(ctx context.Context, lease *watch.Lease, p runtime.Program) (s State, err error) {
	for kind, o := range map[schema.GroupVersionKind]*unstructured.Unstructured{serviceKind: p.Service(), serviceAccountKind: p.ServiceAccount(), deploymentKind: p.Deployment()} {
		if o != nil { // all are watched from the beginning, whatever is read first
			lease.Watch(watch.Object(kind, d.Namespace, o.GetName()))
		}
	}
	renewal, original, err := d.certificates(ctx, lease, &p)
	if err != nil {
		return s, err
	}
	s = State{Endpoint: p.Endpoint(), ServerSecret: p.ServerSecret, ClientSecret: p.ClientSecret, After: renewal.Sub(d.Now())}
	service, err := d.read(lease, serviceKind, p.Service().GetName())
	if err != nil {
		return s, err
	}
	selected := ""
	if service != nil {
		selected = stringAt(service.Object, "spec", "selector", runtime.RevisionLabel)
	}
	if s.Serves = selected == p.Revision; s.Serves || service == nil {
		if err := d.apply(ctx, lease, p.Service()); err != nil {
			return s, err
		}
		s.Serves = true
	}
	if account := p.ServiceAccount(); account != nil {
		if err := d.apply(ctx, lease, account); err != nil {
			return s, err
		}
	}
	if original {
		if err := d.adopt(ctx, lease, p); err != nil {
			return s, err
		}
	}
	if err := d.apply(ctx, lease, p.Deployment()); err != nil {
		return s, err
	}
	deployment, err := d.read(lease, deploymentKind, p.Deployment().GetName())
	if err != nil {
		return s, err
	}
	s.Ready, s.Message = available(deployment)
	s.Ready = s.Ready || p.Idle
	return s, nil
}

// certificates issues the certificates of a program, and returns when they have to be renewed. Original says that they are still
// those of Crossplane.
func (d *Deployments) certificates(ctx context.Context, lease *watch.Lease, p *runtime.Program) (renewal time.Time, original bool, err error) {
	owner := &metav1.OwnerReference{APIVersion: v1.GroupVersion.String(), Kind: p.Kind, Name: p.Package, UID: p.PackageUID}
	server, err := d.Certificates.Ensure(ctx, lease, p.ServerSecret, serverLeaf(p.Package, p.Hosts()), owner)
	if err != nil || p.ClientSecret == "" {
		p.Certificates = server.digest
		return server.renewal, server.original, err
	}
	// The name is not the revision's, as Crossplane's: during an upgrade, two revisions have the Secret. Crossplane's is used on.
	client, err := d.Certificates.Ensure(ctx, lease, p.ClientSecret, clientLeaf(p.Package), owner)
	if err != nil {
		return server.renewal, false, err
	}
	p.Certificates = server.digest[:16] + client.digest[:16]
	original = server.original && client.original
	if client.renewal.Before(server.renewal) {
		return client.renewal, original, err
	}
	return server.renewal, original, err
}

// adoptedAnnotation is on a Deployment of Crossplane's that runs on: the digest of what would replace it. Once that changes, by a
// configuration or a certificate, it is replaced.
const adoptedAnnotation = "espalier.dev/adopted"

// adopt marks a Deployment that Crossplane has written for the revision, so no pod starts again when this program takes over.
func (d *Deployments) adopt(ctx context.Context, lease *watch.Lease, p runtime.Program) error {
	wanted := p.Deployment()
	live, err := d.read(lease, deploymentKind, wanted.GetName())
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return err
	}
	has := live.GetAnnotations()
	if owner := metav1.GetControllerOfNoCopy(live); owner == nil || owner.UID != p.RevisionUID || has[v1alpha1.AppliedAnnotation] != "" || has[adoptedAnnotation] != "" {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{adoptedAnnotation: wanted.GetAnnotations()[v1alpha1.AppliedAnnotation]}}}
	if _, err := d.Cluster.Patch(ctx, live, change, Manager); err != nil && !kube.IsStale(err) {
		return fmt.Errorf("write Deployment %s/%s: %s%s", d.Namespace, live.GetName(), kube.RedactedMessage(err), kube.Remedy(err))
	}
	return errNotRead // the lease brings the next reconcile
}

// TakeOver implements Runtime.
func (d *Deployments) TakeOver(ctx context.Context, lease *watch.Lease, p runtime.Program) error {
	return d.apply(ctx, lease, p.Service())
}

// Stop implements Runtime. The ServiceAccount goes with the revision: a user's roles may name it.
func (d *Deployments) Stop(ctx context.Context, lease *watch.Lease, p runtime.Program) error {
	o, err := d.read(lease, deploymentKind, p.Deployment().GetName())
	if err != nil || o == nil || o.GetDeletionTimestamp() != nil {
		return err
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.UID != p.RevisionUID {
		return nil // a configuration gives all revisions one name
	}
	return d.Cluster.Delete(ctx, o)
}

func (d *Deployments) read(lease *watch.Lease, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	return readObject(lease, kind, d.Namespace, name)
}

func readObject(lease *watch.Lease, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o, state := lease.Object(kind, namespace, name)
	switch {
	case state.Phase == watch.Unavailable:
		return nil, fmt.Errorf("cannot read %s: %s", describeObject(kind.Kind, namespace, name), state.Message)
	case state.Phase != watch.Synced:
		return nil, errNotRead
	}
	return o, nil
}

func describeObject(kind, namespace, name string) string {
	return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}

func (d *Deployments) apply(ctx context.Context, lease *watch.Lease, o *unstructured.Unstructured) error {
	return applyObject(ctx, d.Cluster, lease, o)
}

// applyObject writes an object that differs from what was applied last, or that another manager has changed. It leaves a ServiceAccount
// alone that is not a package's.
func applyObject(ctx context.Context, to Cluster, lease *watch.Lease, o *unstructured.Unstructured) error {
	live, err := readObject(lease, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil {
		return err
	}
	switch {
	case live == nil:
		_, err = to.Create(ctx, o, objectManager)
	case live.GetDeletionTimestamp() != nil:
		return &problem{text: o.GetKind() + " " + o.GetName() + " is being deleted", waits: true}
	case o.GroupVersionKind() == serviceAccountKind && !isOfPackage(live):
		return nil
	case isUpToDate(live, o):
		return nil
	default:
		_, err = to.Update(ctx, withOwners(o, live), live.GetUID(), objectManager)
	}
	switch {
	case kube.IsNameTaken(err), live != nil && kube.IsStale(err):
		return &problem{text: o.GetKind() + " " + o.GetName() + " has changed meanwhile", waits: true}
	case err != nil:
		return fmt.Errorf("write %s: %s%s", describeObject(o.GetKind(), o.GetNamespace(), o.GetName()), kube.RedactedMessage(err), remedy(err))
	}
	return nil
}

// remedy says what to do about a failed write, as the end of a sentence. No event follows the creation in a namespace that does not
// exist.
func remedy(err error) string {
	if kube.IsNamespaceMissing(err) {
		return ". Create the namespace, or set another one as packages.namespace"
	}
	return kube.Remedy(err)
}

func isOfPackage(o *unstructured.Unstructured) bool {
	for _, owner := range o.GetOwnerReferences() {
		if schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group == v1.GroupVersion.Group {
			return true
		}
	}
	return false
}

func isUpToDate(live, wanted *unstructured.Unstructured) bool {
	if has := live.GetAnnotations(); has[v1alpha1.AppliedAnnotation] == "" && has[adoptedAnnotation] == wanted.GetAnnotations()[v1alpha1.AppliedAnnotation] {
		return true
	}
	return live.GetAnnotations()[v1alpha1.AppliedAnnotation] == wanted.GetAnnotations()[v1alpha1.AppliedAnnotation] &&
		len(plan.LostFields(wanted, live, objectManager)) == 0
}

// withOwners lets the revisions that controlled an object before own it on, without controlling it: an object has one controller.
func withOwners(o, live *unstructured.Unstructured) *unstructured.Unstructured {
	owners := o.GetOwnerReferences()
	for _, old := range live.GetOwnerReferences() {
		if owners[0].UID != old.UID && old.Controller != nil && *old.Controller {
			old.Controller = new(bool)
			owners = append(owners, old)
		}
	}
	o = o.DeepCopy()
	o.SetOwnerReferences(owners)
	return o
}

// available reads whether a Deployment runs what it has to. While it replaces its pods, the former ones are available.
func available(o *unstructured.Unstructured) (bool, string) {
	if o == nil {
		return false, "its Deployment is created"
	}
	d, err := decode[appsv1.Deployment](o)
	if err != nil {
		return false, err.Error()
	}
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue && d.Status.AvailableReplicas >= min(wanted, 1) {
			return true, ""
		}
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return false, fmt.Sprintf("Deployment %s: %s: %s", d.Name, c.Reason, c.Message)
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue || c.Type == appsv1.DeploymentAvailable && c.Status != corev1.ConditionTrue {
			return false, fmt.Sprintf("Deployment %s: %s: %s", d.Name, c.Reason, c.Message)
		}
	}
	return false, fmt.Sprintf("Deployment %s has no available pod yet", d.Name)
}
