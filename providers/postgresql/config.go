package postgresql

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var (
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// server has a server's address and credentials: a provider configuration with the contents
// of its Secrets. It is the key of the connection pools.
type server struct {
	// Namespace is the ProviderConfig's; empty for a ClusterProviderConfig.
	Namespace string
	// DenyLocal refuses connections to the machine that this program runs on.
	DenyLocal      bool
	Host           string
	Port           uint16
	Database       string
	User, Password string
	TLS            v1alpha1.TLSMode
	ServerName     string
	CA             string
	Cert, Key      string
	Connections    int32
	Timeout        time.Duration
}

// scope is the scope of the server's names: host and port, independent of the
// configuration's name. For a ProviderConfig it includes the namespace: otherwise a tenant
// could claim the address of another tenant's server, and reserve the names on it. A server
// with two names, or in two namespaces, has two scopes; there the marks on the server, and
// not reservations, detect conflicts.
func (s server) scope() string {
	address := net.JoinHostPort(strings.ToLower(s.Host), strconv.Itoa(int(s.Port)))
	if s.Namespace != "" {
		return s.Namespace + "/" + address
	}
	return address
}

// hostPattern matches host names, addresses, and directories of sockets. A host from a
// Secret has not been validated by a schema.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9_.:-]{1,253}|/[A-Za-z0-9_./:-]{1,252})$`)

func (s server) databaseScope(database string) string { return s.scope() + "/" + database }

// It reads the provider configuration of the managed resource, and what that allows.
func (o Options) readServer(objects managed.Objects, m managed.Object, ref *resource.ProviderConfigReference) (server, sharing, error) {
	namespace := m.GetNamespace()
	kind, name := v1alpha1.ClusterProviderConfigKind, "default"
	if ref != nil {
		kind, name = cmp.Or(ref.Kind, kind), ref.Name
	}
	from := reader{objects: objects}
	switch kind {
	case v1alpha1.ClusterProviderConfigKind:
	case v1alpha1.ProviderConfigKind:
		from.namespace = namespace
	default:
		return server{}, sharing{}, fmt.Errorf("spec.providerConfigRef.kind is %q; it must be %s or %s", kind, v1alpha1.ClusterProviderConfigKind,
			v1alpha1.ProviderConfigKind)
	}
	config, err := objects.Get(v1alpha1.GroupVersion.WithKind(kind), from.namespace, name)
	if err != nil {
		return server{}, sharing{}, err
	}
	if config == nil {
		return server{}, sharing{}, fmt.Errorf("%s %s of spec.providerConfigRef does not exist", kind, name)
	}
	var spec v1alpha1.ClusterProviderConfigSpec
	raw, _, _ := unstructured.NestedMap(config.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return server{}, sharing{}, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	var shared sharing // a ProviderConfig belongs to one namespace, and restricts nothing
	if kind == v1alpha1.ClusterProviderConfigKind {
		if shared, err = readSharing(objects, m, kind+" "+name, spec); err != nil {
			return server{}, sharing{}, err
		}
	}
	s, err := from.server(spec.ProviderConfigSpec)
	if err != nil {
		return server{}, sharing{}, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	s.Namespace, s.DenyLocal = from.namespace, from.namespace != "" && !o.LocalServers
	return s, shared, nil
}

// In a namespace that is not allowed, a managed resource that is being deleted adopts nothing, but what it owns by now
// is still deleted with it.
func readSharing(objects managed.Objects, m managed.Object, config string, spec v1alpha1.ClusterProviderConfigSpec) (sharing, error) {
	shared := sharing{Config: config, Namespace: m.GetNamespace(), Allow: spec.Allow}
	err := checkSharing(objects, m, config, spec.AllowedNamespaces)
	var denied *external.NotAllowedError
	if m.GetDeletionTimestamp() != nil && errors.As(err, &denied) {
		shared.Denied = denied.Message
		return shared, nil
	}
	return shared, err
}

// checkSharing returns an error unless a configuration allows the namespace of a managed resource.
func checkSharing(objects managed.Objects, m managed.Object, config string, allowed *v1alpha1.AllowedNamespaces) error {
	var namespaceLabels map[string]string
	if allowed != nil && allowed.Selector != nil {
		namespace, err := objects.Get(namespaceKind, "", m.GetNamespace())
		if err != nil {
			return err
		}
		if namespace != nil {
			namespaceLabels = namespace.GetLabels()
		}
	}
	return checkNamespace(config, m.GetNamespace(), allowed, namespaceLabels)
}

// reader reads the Secrets that a configuration refers to. The Secrets of a ProviderConfig must be in its namespace.
type reader struct {
	objects   managed.Objects
	namespace string
}

func (r reader) server(spec v1alpha1.ProviderConfigSpec) (server, error) {
	login, err := r.secret(spec.Credentials.SecretRef)
	if err != nil {
		return server{}, fmt.Errorf("spec.credentials: %w", err)
	}
	s := server{
		Host: cmp.Or(spec.Host, login["endpoint"]), Port: uint16(spec.Port), Database: cmp.Or(spec.Database, "postgres"),
		User: login["username"], Password: login["password"],
		TLS: cmp.Or(spec.TLS.Mode, v1alpha1.TLSVerifyFull), Connections: max(spec.MaxConnections, 1), Timeout: time.Minute,
	}
	if spec.StatementTimeout != nil && spec.StatementTimeout.Duration > 0 {
		s.Timeout = spec.StatementTimeout.Duration
	}
	if s.Port == 0 {
		port, err := strconv.ParseUint(cmp.Or(login["port"], "5432"), 10, 16)
		if err != nil {
			return server{}, errors.New(`the key "port" of the credentials' Secret is not a port number`)
		}
		s.Port = uint16(port)
	}
	switch {
	case s.Host == "":
		return server{}, errors.New(`there is no host: set spec.host, or the key "endpoint" of the credentials' Secret`)
	case !hostPattern.MatchString(s.Host) && spec.Host == "": // it may be a URI with a password
		return server{}, errors.New(`the key "endpoint" of the credentials' Secret is not a host name, an address or the directory of a socket`)
	case !hostPattern.MatchString(s.Host):
		return server{}, fmt.Errorf("the host %q is not a host name, an address or the directory of a socket", s.Host)
	case s.User == "":
		return server{}, errors.New(`the credentials' Secret has no key "username"`)
	}
	return s, r.certificates(spec.TLS, &s)
}

func (r reader) certificates(t v1alpha1.TLS, s *server) error {
	if s.TLS == v1alpha1.TLSDisable {
		return nil
	}
	s.ServerName = cmp.Or(t.ServerName, s.Host)
	if ref := t.CASecretRef; ref != nil {
		data, err := r.secret(ref.SecretReference)
		if err != nil {
			return fmt.Errorf("spec.tls.caSecretRef: %w", err)
		}
		if s.CA = data[cmp.Or(ref.Key, "ca.crt")]; s.CA == "" {
			return fmt.Errorf("spec.tls.caSecretRef: the Secret %s has no key %q", ref.Name, cmp.Or(ref.Key, "ca.crt"))
		}
	}
	if ref := t.ClientCertificateSecretRef; ref != nil {
		data, err := r.secret(*ref)
		if err != nil {
			return fmt.Errorf("spec.tls.clientCertificateSecretRef: %w", err)
		}
		if s.Cert, s.Key = data["tls.crt"], data["tls.key"]; s.Cert == "" || s.Key == "" {
			return fmt.Errorf("spec.tls.clientCertificateSecretRef: the Secret %s has no key tls.crt, or no key tls.key", ref.Name)
		}
	}
	return nil
}

func (r reader) secret(ref v1alpha1.SecretReference) (map[string]string, error) {
	namespace := r.namespace
	switch {
	case namespace == "" && ref.Namespace == "":
		return nil, fmt.Errorf("the reference to the Secret %s needs a namespace, because a ClusterProviderConfig has none", ref.Name)
	case namespace == "":
		namespace = ref.Namespace
	case ref.Namespace != "" && ref.Namespace != namespace:
		return nil, fmt.Errorf("the Secret %s is in namespace %s; a ProviderConfig can only refer to Secrets in its own", ref.Name, ref.Namespace)
	}
	o, err := r.objects.Get(secretKind, namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("the Secret %s/%s does not exist", namespace, ref.Name)
	}
	return dataOf(o), nil
}

func dataOf(o *unstructured.Unstructured) map[string]string {
	encoded, _, _ := unstructured.NestedStringMap(o.Object, "data")
	data := make(map[string]string, len(encoded))
	for key, value := range encoded {
		if raw, err := base64.StdEncoding.DecodeString(value); err == nil {
			data[key] = string(raw)
		}
	}
	return data
}
