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
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// server is how to reach a server, and as whom: a ProviderConfig with all that it
// names. Two that are equal are the same connection.
type server struct {
	// Namespace is that of a ProviderConfig; a ClusterProviderConfig has none.
	Namespace string
	// Away says that the server can't be on the machine on which this program runs.
	Away           bool
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

// scope is the place in which names are unique: the server by its host and port,
// whatever the configuration is called that says so. What a ProviderConfig says of
// its server is true in its own namespace alone: anybody could say that his was
// another's, and take the names there. A server that is reached under two names, or
// from two namespaces, is two scopes; the marks on what is there tell that, and no
// reservation does.
func (s server) scope() string {
	place := net.JoinHostPort(strings.ToLower(s.Host), strconv.Itoa(int(s.Port)))
	if s.Namespace != "" {
		return s.Namespace + "/" + place
	}
	return place
}

// hosts are names, addresses, and directories of sockets. The host may be of a Secret,
// which no schema checks.
var hosts = regexp.MustCompile(`^([A-Za-z0-9_.:-]{1,253}|/[A-Za-z0-9_./:-]{1,252})$`)

// within is the scope of what is in a database.
func (s server) within(database string) string { return s.scope() + "/" + database }

// configured reads the configuration that a managed resource names.
func (o Options) configured(objects managed.Objects, namespace string, ref *resource.ProviderConfigReference) (server, error) {
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
		return server{}, fmt.Errorf("spec.providerConfigRef.kind is %q; it can be %s or %s", kind, v1alpha1.ClusterProviderConfigKind, v1alpha1.ProviderConfigKind)
	}
	config, err := objects.Get(v1alpha1.GroupVersion.WithKind(kind), from.namespace, name)
	if err != nil {
		return server{}, err
	}
	if config == nil {
		return server{}, fmt.Errorf("there is no %s %s, which spec.providerConfigRef names", kind, name)
	}
	var spec v1alpha1.ProviderConfigSpec
	raw, _, _ := unstructured.NestedMap(config.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return server{}, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	s, err := from.server(spec)
	if err != nil {
		return server{}, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	s.Namespace, s.Away = from.namespace, from.namespace != "" && !o.LocalServers
	return s, nil
}

// reader reads the Secrets that a configuration names: for one of a namespace, from
// that namespace and no other.
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
			return server{}, errors.New(`the key "port" of the credentials' Secret is no port`)
		}
		s.Port = uint16(port)
	}
	switch {
	case s.Host == "":
		return server{}, errors.New(`there is neither spec.host nor a key "endpoint" in the credentials' Secret`)
	case !hosts.MatchString(s.Host):
		return server{}, fmt.Errorf("the host %q is neither a name, an address nor a socket's directory", s.Host)
	case s.User == "":
		return server{}, errors.New(`the credentials' Secret has no key "username"`)
	}
	return s, r.certificates(spec.TLS, &s)
}

// certificates reads what TLS needs.
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
			return fmt.Errorf("spec.tls.clientCertificateSecretRef: the Secret %s has no tls.crt, or no tls.key", ref.Name)
		}
	}
	return nil
}

// secret reads a Secret that a configuration names.
func (r reader) secret(ref v1alpha1.SecretReference) (map[string]string, error) {
	namespace := r.namespace
	switch {
	case namespace == "" && ref.Namespace == "":
		return nil, fmt.Errorf("the Secret %s needs a namespace, as the configuration has none", ref.Name)
	case namespace == "":
		namespace = ref.Namespace
	case ref.Namespace != "" && ref.Namespace != namespace:
		return nil, fmt.Errorf("the Secret %s is in namespace %s; a ProviderConfig's are in its own", ref.Name, ref.Namespace)
	}
	o, err := r.objects.Get(secretKind, namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("there is no Secret %s/%s", namespace, ref.Name)
	}
	return dataOf(o), nil
}

// dataOf are the texts that a Secret holds.
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
