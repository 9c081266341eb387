// Package uninstall finds what the controllers leave in a cluster, and removes an installation in an
// order in which nothing waits for something that is already gone.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
)

// Cluster is a cluster with an installation in a namespace.
type Cluster struct {
	*reader.Cluster
	namespace string
	// dryRun is All if nothing is to be changed.
	dryRun []string
}

// New returns the cluster. It makes no request.
func New(config *rest.Config, namespace string) (*Cluster, error) {
	cluster, err := reader.New(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Cluster: cluster, namespace: namespace}, nil
}

// Remaining is what remains without the controllers.
type Remaining struct {
	Namespace string
	// Kinds are the kinds of definitions, instances and records that have objects.
	Kinds []Kind
	// CRDs counts the CustomResourceDefinitions that the controllers have written, and Conversions
	// those of them that the conversion webhook converts.
	CRDs, Conversions int
	// Unreadable are the kinds of the cluster with objects that cannot be listed, and why. A conversion
	// webhook that is gone is a common reason.
	Unreadable []string
	// Others are the objects with the labels of the installation that Remove leaves, such as those of kinds
	// that only a newer release installs.
	Others []string
	// Unsearched are the kinds that cannot be listed, so that they may have more of these objects.
	Unsearched []string
	// Helm is the name of the Helm release; empty if there is none.
	Helm string
}

// Kind counts the objects of a kind.
type Kind struct {
	Kind string
	// Objects counts all, Finalizers those with finalizers of the controllers, and Deleting those
	// that are being deleted.
	Objects, Finalizers, Deleting int
}

// Count returns the number of objects of a kind.
func (r Remaining) Count(kind string) int {
	for _, k := range r.Kinds {
		if k.Kind == kind {
			return k.Objects
		}
	}
	return 0
}

// Finalizers returns how many objects have finalizers of the controllers.
func (r Remaining) Finalizers() (n int) {
	for _, k := range r.Kinds {
		n += k.Finalizers
	}
	return n
}

// Remaining finds what remains. It fails if the installation is in another namespace.
func (c *Cluster) Remaining(ctx context.Context) (Remaining, error) {
	out := Remaining{Namespace: c.namespace}
	if err := c.verifyNamespace(ctx); err != nil {
		return out, err
	}
	crds, err := c.crds(ctx)
	if err != nil {
		return out, err
	}
	for _, crd := range crds {
		ours := isWritten(crd)
		if ours {
			out.CRDs++
			if converts(crd, c.namespace) {
				out.Conversions++
			}
		}
		k := Kind{Kind: crd.Spec.Names.Kind + "." + crd.Spec.Group}
		err := c.eachOf(ctx, crd, func(_ schema.GroupVersionResource, o *unstructured.Unstructured) error {
			k.Objects++
			if len(finalizersOf(o, ours)) > 0 {
				k.Finalizers++
			}
			if o.GetDeletionTimestamp() != nil {
				k.Deleting++
			}
			return nil
		})
		if ctx.Err() != nil {
			return out, ctx.Err()
		} else if err != nil {
			out.Unreadable = append(out.Unreadable, err.Error())
		}
		if k.Finalizers > 0 || ours && k.Objects > 0 {
			out.Kinds = append(out.Kinds, k)
		}
	}
	if out.Others, out.Unsearched, err = c.others(ctx, crds); err != nil {
		return out, err
	}
	slices.Sort(out.Unreadable)
	slices.SortFunc(out.Kinds, func(a, b Kind) int { return strings.Compare(a.Kind, b.Kind) })
	deployment, err := c.Client.Resource(deployments).Namespace(c.namespace).Get(ctx, "espalier", metav1.GetOptions{})
	if err == nil {
		out.Helm = deployment.GetAnnotations()["meta.helm.sh/release-name"]
	}
	return out, ignoreAbsent(err)
}

// verifyNamespace fails if the installation is in another namespace than the given one. The
// Deployment says where it is; without one, as after an interrupted Remove, the recorded lease does.
func (c *Cluster) verifyNamespace(ctx context.Context) error {
	list, err := c.List(ctx, reader.Query{Resource: deployments, Labels: selector})
	if err != nil {
		return err
	}
	var found []string
	for _, d := range list {
		if d.GetName() == "espalier" {
			found = append(found, d.GetNamespace())
		}
	}
	if len(found) == 0 {
		recorded, err := c.recordedLeases(ctx)
		if err != nil {
			return err
		}
		if namespace, exists := recorded[leaseAnnotation+manager.LeaseName("espalier")]; exists {
			found = append(found, namespace)
		}
	}
	if len(found) == 0 || slices.Contains(found, c.namespace) {
		return nil
	}
	return fmt.Errorf("the installation is in namespace %[1]s, not in %[2]s: use --namespace %[1]s", found[0], c.namespace)
}

// Release removes the finalizers of the controllers from all objects, and returns from how many. Kinds
// of other programs with objects that cannot be listed are returned, and why.
func (c *Cluster) Release(ctx context.Context) (released int, unreadable []string, err error) {
	crds, err := c.crds(ctx)
	if err != nil {
		return 0, nil, err
	}
	var failed []error
	for _, crd := range crds {
		err := c.eachOf(ctx, crd, func(resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
			ours := finalizersOf(o, isWritten(crd))
			if len(ours) == 0 {
				return nil
			}
			rest := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return slices.Contains(ours, f) })
			change := map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion(), "finalizers": rest}}
			if err := c.patch(ctx, resource, o.GetNamespace(), o.GetName(), change); ignoreAbsent(err) != nil {
				return fmt.Errorf("remove the finalizers of %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			released++
			return nil
		})
		var notListed *reader.ListError
		if errors.As(err, &notListed) && !isWritten(crd) && ctx.Err() == nil {
			unreadable = append(unreadable, err.Error())
			continue
		}
		failed = append(failed, err)
	}
	return released, unreadable, errors.Join(failed...)
}

// Remove removes the installation, and reports each step. It removes the programs before what they
// need: the webhook's configuration first, since without the webhook it denies deletions; then the
// programs, which write it and the conversion webhooks; then these, and the rest.
func (c *Cluster) Remove(ctx context.Context, report func(step string)) error {
	if err := c.verifyNamespace(ctx); err != nil {
		return err
	}
	if err := c.checkPermissions(ctx); err != nil {
		return err
	}
	stopped := "the controllers are stopped"
	if runs, err := c.runsControllers(ctx); err != nil {
		return err
	} else if !runs {
		stopped = fmt.Sprintf("no controllers run in namespace %s; stop those that run outside of the cluster, such as by 'espalier up': they write the webhook for deletions again", c.namespace)
	}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"the webhook for deletions is removed", c.removeWebhook},
		{stopped, c.stop},
		{"the conversion webhooks are removed", c.endConversions},
		{"services, roles and service accounts are removed", c.removeObjects},
		{"the leases and the webhook's certificate are removed", c.removeRecords},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return err
		}
		report(step.what)
	}
	return nil
}

// checkPermissions fails if a request of Remove is forbidden, so that an installation is not left without its
// programs and with the rest. Nothing is changed. Other failures of a dry run say nothing about the request.
func (c *Cluster) checkPermissions(ctx context.Context) error {
	trial := *c
	trial.dryRun = []string{metav1.DryRunAll}
	for _, do := range []func(context.Context) error{
		trial.removeWebhook, trial.removeDeployments, trial.endConversions, trial.removeObjects, trial.removeRecords,
	} {
		if err := do(ctx); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was removed, because that needs a cluster administrator: %w", err)
		}
	}
	return nil
}

var (
	deployments    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	crdResource    = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	configurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// scope says in which namespaces the chart has objects of a kind.
type scope int

const (
	inNamespace    scope = iota // that of the installation
	clusterScoped               // none
	alsoNamespaces              // that of the installation and, under the names of grantedElsewhere, others
)

// grantedElsewhere are the names of the roles that the chart has in other namespaces than its own.
var grantedElsewhere = []string{"espalier-impersonate", "espalier-function-certificates"}

// objects are the kinds of the chart, in the order in which they are removed. The admission policies
// stay, as their template explains.
var objects = []struct {
	resource schema.GroupVersionResource
	scope    scope
}{
	{schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}, inNamespace},
	{schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}, inNamespace},
	{schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}, inNamespace},
	{schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}, inNamespace},
	{schema.GroupVersionResource{Version: "v1", Resource: "services"}, inNamespace},
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, inNamespace},
	{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, inNamespace},
	{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, inNamespace},
	{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}, clusterScoped},
	{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"}, clusterScoped},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, clusterScoped},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, alsoNamespaces},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, clusterScoped},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, alsoNamespaces},
	{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, inNamespace},
}

// selector selects the objects of the chart, whatever the name of the release.
const selector = "app.kubernetes.io/part-of=espalier,app.kubernetes.io/name=espalier"

func (c *Cluster) removeWebhook(ctx context.Context) error {
	err := c.Client.Resource(configurations).Delete(ctx, webhook.ConfigurationName, metav1.DeleteOptions{DryRun: c.dryRun})
	if ignoreAbsent(err) != nil {
		return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", webhook.ConfigurationName, err)
	}
	return nil
}

// runsControllers reports whether the installation has Deployments or pods. The controllers may run outside of the cluster instead.
func (c *Cluster) runsControllers(ctx context.Context) (bool, error) {
	for _, resource := range []schema.GroupVersionResource{deployments, pods} {
		list, err := c.List(ctx, reader.Query{Resource: resource, Namespace: c.namespace, Labels: selector, Max: 1})
		if err != nil || len(list) > 0 {
			return true, err
		}
	}
	return false, nil
}

// stop deletes the Deployments, waits until their pods have ended and no program holds a lease any more, and removes the webhook that they may have written again meanwhile.
func (c *Cluster) stop(ctx context.Context) error {
	if err := c.removeDeployments(ctx); err != nil {
		return err
	}
	for {
		list, err := c.List(ctx, reader.Query{Resource: pods, Namespace: c.namespace, Labels: selector, Max: 1})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not ended", describePod(list[0]))
		case <-time.After(time.Second):
		}
	}
	if err := c.awaitLeases(ctx); err != nil {
		return err
	}
	return c.removeWebhook(ctx)
}

func (c *Cluster) removeDeployments(ctx context.Context) error {
	return c.removeAll(ctx, deployments, inNamespace, metav1.DeletePropagationForeground)
}

// describePod names a pod and its controller, which is no Deployment of ours if it is not deleted.
func describePod(pod *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf("pod %s of %s %s", pod.GetName(), owner.Kind, owner.Name)
	}
	return "pod " + pod.GetName()
}

// endConversions makes the API server convert kinds with several versions itself, as if they had
// the same schema: it could not read their objects otherwise, nor delete their namespaces.
func (c *Cluster) endConversions(ctx context.Context) error {
	crds, err := c.crds(ctx)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if !isWritten(crd) || !converts(crd, c.namespace) {
			continue
		}
		change := map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": string(apiextensionsv1.NoneConverter), "webhook": nil}}}
		if err := c.patch(ctx, crdResource, "", crd.Name, change); ignoreAbsent(err) != nil {
			return fmt.Errorf("remove the conversion webhook of CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	return nil
}

func (c *Cluster) removeObjects(ctx context.Context) error {
	for _, o := range objects {
		if err := c.removeAll(ctx, o.resource, o.scope, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}

// removeAll deletes the objects of the chart that a resource serves.
func (c *Cluster) removeAll(ctx context.Context, resource schema.GroupVersionResource, in scope, policy metav1.DeletionPropagation) error {
	namespace := ""
	if in == inNamespace {
		namespace = c.namespace
	}
	return c.Each(ctx, reader.Query{Resource: resource, Namespace: namespace, Labels: selector}, func(o *unstructured.Unstructured) error {
		if !c.isIn(in, o) {
			return nil
		}
		err := c.Client.Resource(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy, DryRun: c.dryRun})
		if ignoreAbsent(err) != nil {
			return fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		return nil
	})
}

// removeRecords removes what the controllers have written for themselves, but not what a later
// installation needs to know its objects again.
func (c *Cluster) removeRecords(ctx context.Context) error {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	if err := c.Client.Resource(secrets).Namespace(c.namespace).Delete(ctx, webhook.SecretName, metav1.DeleteOptions{DryRun: c.dryRun}); ignoreAbsent(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", webhook.SecretName, err)
	}
	names, err := c.leaseNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.Client.Resource(leases).Namespace(c.namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: c.dryRun}); ignoreAbsent(err) != nil {
			return fmt.Errorf("delete Lease %s: %w", name, err)
		}
	}
	recorded, err := c.recordedLeases(ctx)
	if err != nil {
		return err
	}
	removed := map[string]any{}
	for annotation, namespace := range recorded {
		if namespace == c.namespace {
			removed[annotation] = nil
		}
	}
	if len(removed) == 0 {
		return nil
	}
	// So that a later installation may be in another namespace.
	change := map[string]any{"metadata": map[string]any{"annotations": removed}}
	if err := c.patch(ctx, crdResource, "", bindingsCRD, change); ignoreAbsent(err) != nil {
		return fmt.Errorf("remove the lease from CustomResourceDefinition %s: %w", bindingsCRD, err)
	}
	return nil
}

func (c *Cluster) patch(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, change map[string]any) error {
	raw, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.Client.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, raw,
		metav1.PatchOptions{FieldManager: "espalier-uninstall", DryRun: c.dryRun})
	return err
}

func (c *Cluster) crds(ctx context.Context) (out []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = c.Each(ctx, reader.Query{Resource: crdResource}, func(o *unstructured.Unstructured) error {
		decoded, err := crd.Decode(o)
		out = append(out, decoded)
		return err
	})
	return out, err
}

// eachOf calls do with the objects of a kind, in the version that they are stored in if possible: others may need a conversion.
func (c *Cluster) eachOf(ctx context.Context, kind *apiextensionsv1.CustomResourceDefinition,
	do func(schema.GroupVersionResource, *unstructured.Unstructured) error) error {
	resource, served := readable(kind)
	if !served {
		return &reader.ListError{Resource: resource.GroupResource(), Err: errors.New("no version is served")}
	}
	return c.Each(ctx, reader.Query{Resource: resource}, func(o *unstructured.Unstructured) error { return do(resource, o) })
}

// readable is the resource in which the objects of a kind are read: in the version that they are stored in, if that is served. A
// kind that serves no version has none.
func readable(c *apiextensionsv1.CustomResourceDefinition) (resource schema.GroupVersionResource, served bool) {
	resource = schema.GroupVersionResource{Group: c.Spec.Group, Version: crd.StorageVersion(c), Resource: c.Spec.Names.Plural}
	if crd.Serves(c, resource.Version) {
		return resource, true
	}
	i := slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i >= 0 {
		resource.Version = c.Spec.Versions[i].Name
	}
	return resource, i >= 0
}

// converts reports whether the webhook of the installation converts the objects of a kind.
func converts(crd *apiextensionsv1.CustomResourceDefinition, namespace string) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return false
	}
	service := conversion.Webhook.ClientConfig.Service
	return service == nil || service.Namespace == namespace
}

// isOurs reports whether a field manager is one of the controllers.
func isOurs(manager string) bool {
	return strings.HasPrefix(manager, "espalier.dev/") || slices.Contains([]string{v1alpha1.InstanceManager, v1alpha1.StatusManager}, manager)
}

// isWritten reports whether the controllers have written a CustomResourceDefinition.
func isWritten(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Labels[v1alpha1.OwnedLabel] == "true" || slices.ContainsFunc(crd.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return isOurs(m.Manager) && m.Subresource == ""
	})
}

// finalizersOf returns the finalizers of an object that the controllers have set. Other programs
// use the same names, so the field managers decide. A finalizer without one, such as of an object that was restored
// without managed fields, is theirs if they have written the kind.
func finalizersOf(o *unstructured.Unstructured, isOurKind bool) (out []string) {
	managed, ours := map[string]bool{}, map[string]bool{}
	for _, entry := range o.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for f := range fields.Metadata.Finalizers {
			managed[f] = true
			ours[f] = ours[f] || isOurs(entry.Manager)
		}
	}
	for _, f := range o.GetFinalizers() {
		field := `v:"` + f + `"`
		if ours[field] || isOurKind && !managed[field] && inventory.IsFinalizer(f) {
			out = append(out, f)
		}
	}
	return out
}

// ignoreAbsent drops the error that an object or a kind does not exist.
func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
