package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/apiextensions"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
)

// maxExamined bounds the objects of one kind that doctor reads.
const maxExamined = 20_000

// installation reads the state of an installation, with the rights of the caller.
type installation struct {
	*reader.Cluster
	config *rest.Config
	typed  kubernetes.Interface
	state  doctor.State
	// managed are the CustomResourceDefinitions of managed resources.
	managed []*apiextensionsv1.CustomResourceDefinition
	// checks are those that need what is being read.
	checks []string
	// composed are the kinds that graph definitions compose.
	composed map[schema.GroupVersionKind]bool
	// programs are the configurations of the controllers that were found, by the service account.
	programs map[rbacv1.Subject]configuration
}

// instanceChecks are the checks that need instances and their children.
var instanceChecks = []string{"reconciled", "deletions", "orphans", "contested"}

func newInstallation(config *rest.Config) (*installation, error) {
	cluster, err := reader.New(config)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &installation{Cluster: cluster, config: config, typed: typed, programs: map[rbacv1.Subject]configuration{}}, nil
}

// gatherInstallation reads an installation. Without accounts, the permissions of those of the Deployments are checked. The error says that
// the API server does not answer, or that the context has ended.
func gatherInstallation(ctx context.Context, config *rest.Config, accounts []rbacv1.Subject) (doctor.State, error) {
	i, err := newInstallation(config)
	if err != nil {
		return doctor.State{}, err
	}
	version, err := i.typed.Discovery().ServerVersion()
	if err != nil {
		return doctor.State{}, fmt.Errorf("read the version of the API server: %w", err)
	}
	i.state.Server = version.GitVersion
	for _, account := range accounts {
		i.programs[account] = configuration{ControllerConfiguration: server.DefaultConfiguration()}
	}
	for _, stage := range []struct {
		read   func(context.Context)
		checks []string
	}{
		{func(ctx context.Context) { i.readControllers(ctx, len(accounts) == 0) }, []string{"versions", "controllers", "rights"}},
		{i.readLeases, []string{"controllers"}},
		{i.readHolds, []string{"controllers"}},
		{i.readProviders, []string{"providers"}},
		{i.readRights, []string{"rights"}},
		{i.readInstalls, []string{"crds"}},
		{i.readCRDs, []string{"crds", "webhooks", "certificates", "reconciled", "deletions", "orphans", "contested"}},
		{i.readWebhooks, []string{"webhooks", "certificates"}},
		{i.readRevisions, []string{"definitions"}},
		{i.readDefinitions, []string{"definitions", "reconciled", "deletions", "orphans", "contested"}},
		{i.readInstances, instanceChecks},
		{i.readChildren, instanceChecks},
	} {
		i.checks = stage.checks
		if stage.read(ctx); ctx.Err() != nil { // what was not read is no finding
			return doctor.State{}, context.Cause(ctx)
		}
	}
	return i.state, nil
}

// read notes what could not be read; true if it could be.
func (i *installation) read(what string, err error) bool {
	if err == nil {
		return true
	}
	if list := (*reader.ListError)(nil); errors.As(err, &list) {
		err = list.Err // what names it
	}
	i.state.Unread = append(i.state.Unread, doctor.Unread{What: what, Why: err.Error(), Checks: i.checks, Forbidden: apierrors.IsForbidden(err)})
	return false
}

// controllersSelector selects the Deployments that 'espalier install' and the Helm chart create.
const controllersSelector = "app.kubernetes.io/name=espalier,app.kubernetes.io/component=controllers"

func (i *installation) readControllers(ctx context.Context, withAccounts bool) {
	list, err := i.typed.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: controllersSelector})
	if !i.read("Deployments of the controllers", err) {
		return
	}
	for _, d := range list.Items {
		i.state.Controllers = append(i.state.Controllers, controllerOf(&d))
		if spec := d.Spec.Template.Spec; withAccounts && len(spec.Containers) > 0 {
			i.programs[rbac.ServiceAccount(d.Namespace, spec.ServiceAccountName)] = i.programOf(ctx, d.Namespace, spec)
		}
	}
	if len(list.Items) == 0 {
		// It only changes what to do, so who may not list nodes misses nothing.
		nodes, err := i.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
		i.state.NoNodes = err == nil && len(nodes.Items) == 0
	}
}

func controllerOf(d *appsv1.Deployment) doctor.Controller {
	c := doctor.Controller{Namespace: d.Namespace, Name: d.Name, Version: d.Labels["app.kubernetes.io/version"], Wanted: 1, Ready: d.Status.ReadyReplicas}
	if d.Spec.Replicas != nil {
		c.Wanted = *d.Spec.Replicas
	}
	return c
}

// programOf returns the configuration of the controllers in a pod: the ConfigMap of --config, and the flags.
func (i *installation) programOf(ctx context.Context, namespace string, pod corev1.PodSpec) configuration {
	f, cmd := &runFlags{}, &cobra.Command{}
	f.add(cmd)
	cmd.FParseErrWhitelist.UnknownFlags = true // of another release
	_ = cmd.ParseFlags(pod.Containers[0].Args) // what is invalid keeps the program from starting
	if source := mountedConfigMap(pod, path.Dir(f.file)); source != "" {
		mounted, err := i.typed.CoreV1().ConfigMaps(namespace).Get(ctx, source, metav1.GetOptions{})
		if i.read("ConfigMap "+namespace+"/"+source+" with the configuration of the controllers", err) {
			_, _ = f.configuration.read(cmd, []byte(mounted.Data[path.Base(f.file)]))
		}
	}
	f.AWS.TypesFile = "" // in the pod
	return f.configuration
}

// mountedConfigMap is the name of the ConfigMap that the container of a pod mounts at a path; empty for none.
func mountedConfigMap(pod corev1.PodSpec, at string) string {
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if mount.MountPath == at && volume.Name == mount.Name && volume.ConfigMap != nil {
				return volume.ConfigMap.Name
			}
		}
	}
	return ""
}

func (i *installation) readLeases(ctx context.Context) {
	i.state.Leases = i.leases(ctx, "Leases of the controllers", programName)
}

func (i *installation) readHolds(ctx context.Context) {
	for _, h := range i.list(ctx, "Holds", espalier.GroupVersion.WithResource("holds")) {
		reason, _, _ := unstructured.NestedString(h.Object, "spec", "reason")
		i.state.Holds = append(i.state.Holds, doctor.Hold{Name: h.GetName(), Reason: reason})
	}
}

// providersSelector selects the Deployments of providers that 'espalier install' and the Helm chart create.
const providersSelector = "app.kubernetes.io/name=espalier,app.kubernetes.io/component in (provider-aws,provider-postgresql)"

func (i *installation) readProviders(ctx context.Context) {
	if list, err := i.typed.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: providersSelector}); i.read("Deployments of providers", err) {
		for _, d := range list.Items {
			i.state.Providers = append(i.state.Providers, controllerOf(&d))
		}
	}
	for _, provider := range []string{"aws", "postgresql"} {
		i.state.ProviderLeases = append(i.state.ProviderLeases, i.leases(ctx, "Leases of the provider "+provider, provider)...)
	}
}

// leases returns the leases by which the processes of a program elect their leader.
func (i *installation) leases(ctx context.Context, what, program string) (out []doctor.Lease) {
	list, err := i.typed.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if !i.read(what, err) {
		return nil
	}
	for _, l := range list.Items {
		if !manager.IsLeaseOf(program, l.Name) {
			continue
		}
		lease := doctor.Lease{Namespace: l.Namespace, Name: l.Name}
		if l.Spec.HolderIdentity != nil {
			lease.Holder = *l.Spec.HolderIdentity
		}
		if l.Spec.RenewTime != nil {
			lease.Renewed = l.Spec.RenewTime.Time
		}
		if l.Spec.LeaseDurationSeconds != nil {
			lease.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
		out = append(out, lease)
	}
	return out
}

// readRights asks the API server for each permission of the controllers.
func (i *installation) readRights(ctx context.Context) {
	for account, program := range i.programs {
		needs, err := program.needs([]rbacv1.Subject{account})
		if !i.read("permissions of "+account.Name, err) {
			continue
		}
		rights := doctor.Rights{Namespace: account.Namespace, Name: account.Name}
		for _, p := range needs {
			allowed, err := i.isAllowed(ctx, account, p)
			if !i.read("permissions of service account "+account.Namespace+"/"+account.Name, err) {
				return
			}
			if !allowed {
				rights.Missing = append(rights.Missing, p)
			}
		}
		i.state.Rights = append(i.state.Rights, rights)
	}
}

func (i *installation) isAllowed(ctx context.Context, account rbacv1.Subject, p rbac.Permission) (bool, error) {
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	review, err := i.typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: resource, Subresource: subresource, Name: p.Name,
			Namespace: p.Namespace},
	}}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed, err
}

func (i *installation) readInstalls(ctx context.Context) {
	found, err := server.Check(ctx, server.ManagerOptions{Options: manager.Options{Name: programName, Config: i.config}})
	if i.read("CustomResourceDefinitions of Espalier", err) {
		i.state.Installs = found.Installs
	}
}

func (i *installation) readCRDs(ctx context.Context) {
	for _, o := range i.list(ctx, "CustomResourceDefinitions", crd.Kind.GroupVersion().WithResource("customresourcedefinitions")) {
		c, err := crd.Decode(o)
		switch {
		case !i.read("fields of CustomResourceDefinition "+o.GetName(), errors.Unwrap(err)):
		case isServedHere(c):
			i.state.CRDs = append(i.state.CRDs, c)
		case slices.Contains(c.Spec.Names.Categories, "managed"):
			i.managed = append(i.managed, c)
		}
	}
}

// isServedHere says whether a definition of any dialect serves the kind, or it is that of Graphs.
func isServedHere(c *apiextensionsv1.CustomResourceDefinition) bool {
	_, owned := crd.Owner(c)
	return owned || crd.GroupKind(c) == graph.GraphKind.GroupKind() || slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool {
		return strings.HasPrefix(r.APIVersion, apiextensions.Group+"/")
	})
}

func (i *installation) readWebhooks(ctx context.Context) {
	for _, name := range []string{webhook.ConfigurationName, webhook.ForeignName} {
		configuration, err := i.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || !i.read("webhooks of ValidatingWebhookConfiguration "+name, err) {
			continue
		}
		for _, w := range configuration.Webhooks {
			one := doctor.Webhook{
				Object:   doctor.Object{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: name},
				Required: w.FailurePolicy == nil || *w.FailurePolicy == "Fail", CABundle: w.ClientConfig.CABundle, Foreign: name == webhook.ForeignName,
			}
			if s := w.ClientConfig.Service; s != nil {
				one.Service, one.Ready = i.addresses(ctx, s.Namespace, s.Name)
			}
			i.state.Webhooks = append(i.state.Webhooks, one)
		}
	}
	for _, c := range i.state.CRDs {
		if c.Spec.Conversion == nil || c.Spec.Conversion.Webhook == nil || c.Spec.Conversion.Webhook.ClientConfig == nil {
			continue
		}
		client := c.Spec.Conversion.Webhook.ClientConfig
		one := doctor.Webhook{Object: doctor.Object{Group: crd.Kind.Group, Kind: crd.Kind.Kind, Name: c.Name}, Required: true, CABundle: client.CABundle}
		if s := client.Service; s != nil {
			one.Service, one.Ready = i.addresses(ctx, s.Namespace, s.Name)
		}
		i.state.Webhooks = append(i.state.Webhooks, one)
	}
}

// addresses counts the ready addresses of a service; -1 if they cannot be read.
func (i *installation) addresses(ctx context.Context, namespace, name string) (service string, ready int) {
	service = namespace + "/" + name
	list, err := i.typed.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
	if !i.read("EndpointSlices of service "+service, err) {
		return service, -1
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready += len(e.Addresses)
			}
		}
	}
	return service, ready
}

// readRevisions reads CompositionRevisions.
func (i *installation) readRevisions(ctx context.Context) {
	const plural = "compositionrevisions"
	i.state.Revisions = i.list(ctx, plural, schema.GroupVersionResource{Group: apiextensions.Group, Version: "v1", Resource: plural})
}

// readDefinitions reads definitions, and which kinds these compose.
func (i *installation) readDefinitions(ctx context.Context) {
	i.composed = map[schema.GroupVersionKind]bool{}
	for _, plural := range []string{"resourcegraphdefinitions", "resourcegroups"} {
		for _, o := range i.list(ctx, plural, v1alpha1.GroupVersion.WithResource(plural)) {
			i.state.Definitions = append(i.state.Definitions, o)
			raw, _, _ := unstructured.NestedMap(o.Object, "spec")
			spec, _ := graph.Read(raw)
			for _, gvk := range graph.UsedKinds(spec) {
				i.composed[gvk] = true
			}
		}
	}
	i.state.Definitions = append(i.state.Definitions, i.list(ctx, "compositeresourcedefinitions",
		schema.GroupVersionResource{Group: apiextensions.Group, Version: "v1", Resource: "compositeresourcedefinitions"})...)
}

// readInstances reads the objects of the kinds that definitions serve.
func (i *installation) readInstances(ctx context.Context) {
	for _, c := range i.state.CRDs {
		before := len(i.state.Unread)
		i.state.Instances = append(i.state.Instances, i.listKind(ctx, c)...)
		if len(i.state.Unread) == before {
			i.state.InstanceKinds = append(i.state.InstanceKinds, crd.GroupKind(c))
		}
		delete(i.composed, crd.GroupKind(c).WithVersion(servedVersion(c))) // they are instances
	}
}

// listKind reads the objects of a kind.
func (i *installation) listKind(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) []*unstructured.Unstructured {
	return i.list(ctx, c.Name, schema.GroupVersionResource{Group: c.Spec.Group, Version: servedVersion(c), Resource: c.Spec.Names.Plural})
}

// readChildren reads what instances consist of.
func (i *installation) readChildren(ctx context.Context) {
	for _, o := range i.state.Instances {
		i.addChild(o)
	}
	for gvk := range i.composed {
		i.readChildrenOf(ctx, gvk)
	}
}

func servedVersion(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range c.Spec.Versions {
		if v.Served {
			return v.Name
		}
	}
	return ""
}

func (i *installation) addChild(o *unstructured.Unstructured) {
	if key, _, ok := inventory.InstanceOf(o); ok {
		i.state.Children = append(i.state.Children, doctor.Child{Object: o, Instance: doctor.Object{Group: key.Group, Kind: key.Kind,
			Namespace: key.Namespace, Name: key.Name}})
	}
}

// readChildrenOf reads the objects of a kind that say that they are part of an instance: their metadata, and of managed resources all of it.
func (i *installation) readChildrenOf(ctx context.Context, gvk schema.GroupVersionKind) {
	what := "objects of kind " + gvk.Kind
	mapping, err := i.Kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) || !i.read(what, err) {
		return
	}
	q := reader.Query{Resource: mapping.Resource, Labels: v1alpha1.ApplySetPartOfLabel}
	if !strings.HasSuffix(gvk.Group, ".espalier.dev") {
		q.MetadataOf = gvk.Kind
	}
	for _, o := range i.query(ctx, what, q) {
		i.addChild(o)
	}
}

// list lists all objects of a resource; none if it is not served.
func (i *installation) list(ctx context.Context, what string, resource schema.GroupVersionResource) []*unstructured.Unstructured {
	return i.query(ctx, what, reader.Query{Resource: resource})
}

// query reads at most maxExamined objects, and notes what it cannot read.
func (i *installation) query(ctx context.Context, what string, q reader.Query) []*unstructured.Unstructured {
	q.Max = maxExamined + 1
	out, err := i.List(ctx, q)
	if i.read(what, err) && len(out) > maxExamined {
		out = out[:maxExamined]
		i.state.Unread = append(i.state.Unread, doctor.Unread{What: fmt.Sprintf("%s after the first %d", what, maxExamined), Why: "there are too many",
			Checks: i.checks})
	}
	return out
}
