// Package runtime renders the objects that run a package in a cluster: a Service for the package, and a Deployment and a
// ServiceAccount for each revision that runs. Names, labels, variables and volumes are Crossplane's, so images and
// DeploymentRuntimeConfigs work unchanged.
//
// What a DeploymentRuntimeConfig sets goes before the defaults. Owners, the selector, the namespace and the pull policy are not
// its to choose; variables, volumes and ports are added unless it has some of the same name, and so are pull secrets.
//
// Pure: it decides from values alone.
package runtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Names of a runtime.
const (
	// Container is the container with the package's image.
	Container = "package-runtime"
	// Port is the port of a function, and of the webhooks of a provider.
	Port = 9443
	// RevisionLabel is the label that the Service selects pods by.
	RevisionLabel = "pkg.crossplane.io/revision"
	// certificatesAnnotation makes a pod start again when its certificates are renewed: programs read them once.
	certificatesAnnotation = "espalier.dev/certificates"

	serverCertificates = "/tls/server"
	clientCertificates = "/tls/client"

	user        = 2000
	metricsPort = 8080
)

// Program is the program of a revision.
type Program struct {
	// Kind is the kind of the package: Function or Provider.
	Kind, Package string
	PackageUID    types.UID
	Revision      string
	RevisionUID   types.UID
	Namespace     string
	// Image is the image to run.
	Image       string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	// ServerSecret and ClientSecret have certificates; Certificates is a digest of both. Functions have no ClientSecret.
	ServerSecret, ClientSecret, Certificates string
	Config                                   v1beta1.DeploymentRuntimeConfigSpec
	// Idle runs no pods, whatever the configuration says.
	Idle bool
}

// Endpoint is the address of the Service, as a gRPC target.
func (p Program) Endpoint() string {
	return fmt.Sprintf("dns:///%s.%s:%d", p.ServiceName(), p.Namespace, Port)
}

// Hosts are the names in the server's certificate.
func (p Program) Hosts() []string {
	name := p.ServiceName()
	return []string{name, name + "." + p.Namespace, name + "." + p.Namespace + ".svc"}
}

// ServiceName is the name of the Service.
func (p Program) ServiceName() string {
	if t := p.Config.ServiceTemplate; t != nil {
		return nameOr(t.Metadata, p.Package)
	}
	return p.Package
}

func (p Program) kindLabel() string {
	return map[string]string{v1.ProviderKind: "pkg.crossplane.io/provider", v1.FunctionKind: "pkg.crossplane.io/function"}[p.Kind]
}

func (p Program) selector() map[string]string {
	return map[string]string{RevisionLabel: p.Revision, p.kindLabel(): p.Package}
}

// Service is the Service of the package, for the pods of this revision.
func (p Program) Service() *unstructured.Unstructured {
	s := &corev1.Service{ObjectMeta: p.metadata(p.Package, nil), Spec: corev1.ServiceSpec{Selector: p.selector()}}
	if t := p.Config.ServiceTemplate; t != nil {
		s.ObjectMeta = p.metadata(p.Package, t.Metadata)
	}
	s.OwnerReferences = []metav1.OwnerReference{p.packageOwner()}
	port := corev1.ServicePort{Name: "webhook", Protocol: corev1.ProtocolTCP, Port: Port, TargetPort: intstr.FromInt32(Port)}
	if p.Kind == v1.FunctionKind {
		tls := "tls"
		port.Name, port.AppProtocol, s.Spec.ClusterIP = "grpc", &tls, corev1.ClusterIPNone
	}
	s.Spec.Ports = []corev1.ServicePort{port}
	return Encode(s, corev1.SchemeGroupVersion.WithKind("Service").ToAPIVersionAndKind)
}

// ServiceAccount is the account that the pods run as; nil if the configuration names another one for them.
func (p Program) ServiceAccount() *unstructured.Unstructured {
	a := &corev1.ServiceAccount{ObjectMeta: p.metadata(p.Revision, nil), ImagePullSecrets: p.PullSecrets}
	if t := p.Config.ServiceAccountTemplate; t != nil {
		a.ObjectMeta = p.metadata(p.Revision, t.Metadata)
	}
	if p.AccountName() != a.Name {
		return nil
	}
	a.OwnerReferences = []metav1.OwnerReference{p.revisionOwner()}
	return Encode(a, corev1.SchemeGroupVersion.WithKind("ServiceAccount").ToAPIVersionAndKind)
}

// AccountName is the account of the pods.
func (p Program) AccountName() string {
	if t := p.Config.DeploymentTemplate; t != nil && t.Spec != nil && t.Spec.Template.Spec.ServiceAccountName != "" {
		return t.Spec.Template.Spec.ServiceAccountName
	}
	if t := p.Config.ServiceAccountTemplate; t != nil {
		return nameOr(t.Metadata, p.Revision)
	}
	return p.Revision
}

// Deployment is the Deployment of the revision.
func (p Program) Deployment() *unstructured.Unstructured {
	d := &appsv1.Deployment{ObjectMeta: p.metadata(p.Revision, nil)}
	if t := p.Config.DeploymentTemplate; t != nil {
		d.ObjectMeta = p.metadata(p.Revision, t.Metadata)
		if t.Spec != nil {
			d.Spec = *t.Spec.DeepCopy()
		}
	}
	d.OwnerReferences = []metav1.OwnerReference{p.revisionOwner()}
	if d.Spec.Replicas == nil {
		d.Spec.Replicas = new(int32(1))
	}
	if p.Idle {
		d.Spec.Replicas = new(int32(0))
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: p.selector()}
	p.pod(&d.Spec.Template)
	return Encode(d, appsv1.SchemeGroupVersion.WithKind("Deployment").ToAPIVersionAndKind)
}

func (p Program) pod(t *corev1.PodTemplateSpec) {
	t.Labels = merged(t.Labels, p.selector())
	defaults := map[string]string{certificatesAnnotation: p.Certificates}
	if p.Kind == v1.ProviderKind {
		maps.Copy(defaults, map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": fmt.Sprint(metricsPort), "prometheus.io/path": "/metrics"})
	}
	t.Annotations = merged(defaults, t.Annotations)
	s := &t.Spec
	s.ServiceAccountName = p.AccountName()
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user))}
	}
	s.ImagePullSecrets = missing(s.ImagePullSecrets, p.PullSecrets, func(r corev1.LocalObjectReference) string { return r.Name })
	i := slices.IndexFunc(s.Containers, func(c corev1.Container) bool { return c.Name == Container })
	c := corev1.Container{Name: Container}
	if i >= 0 {
		c = s.Containers[i]
		s.Containers = slices.Delete(s.Containers, i, i+1)
	}
	p.container(&c)
	s.Containers = slices.Insert(s.Containers, 0, c)
	p.mount(s, "tls-server-certs", serverCertificates, p.ServerSecret)
	p.mount(s, "tls-client-certs", clientCertificates, p.ClientSecret)
}

func (p Program) container(c *corev1.Container) {
	if c.Image == "" {
		c.Image = p.Image
	}
	c.ImagePullPolicy = p.PullPolicy
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), Privileged: new(false), AllowPrivilegeEscalation: new(false),
		}
	}
	ports := []corev1.ContainerPort{{Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP}}
	env := []corev1.EnvVar{{Name: "REVISION_NAME", Value: p.Revision}, {Name: "REVISION_UID", Value: string(p.RevisionUID)}}
	if p.ServerSecret != "" {
		env = append(env, corev1.EnvVar{Name: "TLS_SERVER_CERTS_DIR", Value: serverCertificates})
	}
	if p.ClientSecret != "" {
		env = append(env, corev1.EnvVar{Name: "TLS_CLIENT_CERTS_DIR", Value: clientCertificates})
	}
	switch p.Kind {
	case v1.FunctionKind:
		ports = append(ports, corev1.ContainerPort{Name: "grpc", ContainerPort: Port, Protocol: corev1.ProtocolTCP})
		env = append(env, corev1.EnvVar{Name: "FUNCTION_NAME", Value: p.Package})
		if c.ReadinessProbe == nil { // a revision takes over when it listens
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(Port)}}, PeriodSeconds: 1}
		}
	case v1.ProviderKind:
		ports = append(ports, corev1.ContainerPort{Name: "webhook", ContainerPort: Port, Protocol: corev1.ProtocolTCP})
		env = append(env, corev1.EnvVar{Name: "PROVIDER_NAME", Value: p.Package}, corev1.EnvVar{Name: "WEBHOOK_TLS_CERT_DIR", Value: "$(TLS_SERVER_CERTS_DIR)"},
			corev1.EnvVar{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}})
	}
	c.Ports = missing(c.Ports, ports, func(p corev1.ContainerPort) string { return p.Name })
	c.Env = missing(c.Env, env, func(e corev1.EnvVar) string { return e.Name })
}

// mount adds a volume with certificates.
func (p Program) mount(s *corev1.PodSpec, name, path, secret string) {
	if secret == "" {
		return
	}
	volume := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: []corev1.KeyToPath{
		{Key: corev1.TLSCertKey, Path: corev1.TLSCertKey}, {Key: corev1.TLSPrivateKeyKey, Path: corev1.TLSPrivateKeyKey}, {Key: "ca.crt", Path: "ca.crt"},
	}}}}
	s.Volumes = missing(s.Volumes, []corev1.Volume{volume}, func(v corev1.Volume) string { return v.Name })
	c := &s.Containers[0]
	c.VolumeMounts = missing(c.VolumeMounts, []corev1.VolumeMount{{Name: name, ReadOnly: true, MountPath: path}}, func(m corev1.VolumeMount) string { return m.Name })
}

// missing adds what a list lacks, by name.
func missing[T any](list, more []T, name func(T) string) []T {
	for _, m := range more {
		if !slices.ContainsFunc(list, func(t T) bool { return name(t) == name(m) }) {
			list = append(list, m)
		}
	}
	return list
}

func (p Program) metadata(name string, t *v1beta1.ObjectMeta) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: nameOr(t, name), Namespace: p.Namespace}
	if t != nil {
		m.Labels, m.Annotations = maps.Clone(t.Labels), maps.Clone(t.Annotations)
	}
	return m
}

func nameOr(t *v1beta1.ObjectMeta, name string) string {
	if t != nil && t.Name != nil && *t.Name != "" {
		return *t.Name
	}
	return name
}

func merged(one, other map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, one)
	maps.Copy(out, other)
	return out
}

func (p Program) packageOwner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1.GroupVersion.String(), Kind: p.Kind, Name: p.Package, UID: p.PackageUID}
}

func (p Program) revisionOwner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1.GroupVersion.String(), Kind: p.Kind + "Revision", Name: p.Revision, UID: p.RevisionUID, Controller: new(true), BlockOwnerDeletion: new(true)}
}

// Encode returns an object for a server-side apply, with the digest of its content.
func Encode(o any, kind func() (apiVersion, kind string)) *unstructured.Unstructured {
	raw, err := json.Marshal(o)
	u := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(raw, &u.Object)
	}
	if err != nil {
		panic(fmt.Sprintf("runtime: encode %T: %v", o, err)) // values of these types always can be
	}
	apiVersion, name := kind()
	u.SetAPIVersion(apiVersion)
	u.SetKind(name)
	unstructured.RemoveNestedField(u.Object, "status")
	withoutNulls(u.Object)
	Sign(u)
	return u
}

// Sign adds the digest of its content to an object, by which one that is up to date is recognized.
func Sign(u *unstructured.Unstructured) {
	annotations := merged(u.GetAnnotations(), map[string]string{v1alpha1.AppliedAnnotation: object.Digest(u.Object)})
	u.SetAnnotations(annotations)
}

// withoutNulls removes the creationTimestamp of an object and of its template.
func withoutNulls(m map[string]any) {
	for key, value := range m {
		switch value := value.(type) {
		case nil:
			delete(m, key)
		case map[string]any:
			withoutNulls(value)
		}
	}
}
