package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
)

// The protocols of traces, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	TracingGRPC = "grpc"
	TracingHTTP = "http/protobuf"
)

// Validate returns all problems of a configuration. It reads no files: they may be on another machine.
func (c ControllerConfiguration) Validate() (problems field.ErrorList) {
	check := func(name string, value any, isValid bool, rule string) {
		if !isValid {
			problems = append(problems, field.Invalid(field.NewPath(name), value, rule))
		}
	}
	check("apiVersion", c.APIVersion, c.APIVersion == ConfigurationAPIVersion, "must be "+ConfigurationAPIVersion)
	check("kind", c.Kind, c.Kind == ConfigurationKind, "must be "+ConfigurationKind)
	for _, number := range []struct {
		name  string
		value int
	}{
		{"workers", c.Workers},
		{"requestsInFlight", c.RequestsInFlight},
		{"instanceLimits.celCost", int(min(c.InstanceLimits.Cost, 1))},
		{"instanceLimits.bytes", c.InstanceLimits.Bytes},
		{"instanceLimits.objects", c.InstanceLimits.Objects},
		{"instanceLimits.depth", c.InstanceLimits.Depth},
		{"watchLimits.perInstance", c.WatchLimits.PerSubscriber},
		{"watchLimits.perNamespace", c.WatchLimits.PerNamespace},
		{"watchLimits.total", c.WatchLimits.Total},
	} {
		check(number.name, number.value, number.value >= 1, "must be at least 1")
	}
	check("resourceGroups.maxKinds", c.ResourceGroups.MaxKinds, c.ResourceGroups.MaxKinds >= 0, "must be at least 0")
	check("poll", c.Poll.Duration.String(), c.Poll.Duration >= time.Second, "must be at least 1s")
	check("leaderElection.leaseDuration", c.LeaderElection.LeaseDuration.Duration.String(), c.LeaderElection.LeaseDuration.Duration >= time.Second,
		"must be at least 1s")
	check("secretOutputs", c.SecretOutputs, c.SecretOutputs == graph.RefuseSecretOutputs || c.SecretOutputs == graph.WarnOfSecretOutputs,
		fmt.Sprintf("must be %s or %s", graph.RefuseSecretOutputs, graph.WarnOfSecretOutputs))
	check("log.format", c.Log.Format, c.Log.Format == manager.LogText || c.Log.Format == manager.LogJSON, "must be text or json")
	for i, dialect := range c.Dialects {
		if !slices.Contains(Dialects, dialect) {
			problems = append(problems, field.NotSupported(field.NewPath("dialects").Index(i), dialect, Dialects))
		}
	}
	if _, err := shard.Parse(c.WatchNamespaces, ""); err != nil {
		check("watchNamespaces", c.WatchNamespaces, false, err.Error())
	}
	if _, err := shard.Parse(nil, c.WatchLabelSelector); err != nil {
		check("watchLabelSelector", c.WatchLabelSelector, false, err.Error())
	}
	enabled := map[string]bool{"packages": c.Packages.Enabled, "operations": c.Operations.Enabled}
	for _, part := range []string{"packages", "operations"} {
		if enabled[part] && (len(c.WatchNamespaces) > 0 || c.WatchLabelSelector != "") {
			problems = append(problems, field.Forbidden(field.NewPath(part).Child("enabled"),
				"this installation works on a part of the cluster (watchNamespaces, watchLabelSelector), and "+part+" are of all of it"))
		}
	}
	if a := c.Operations.ServiceAccount; a != "" {
		namespace, name, _ := strings.Cut(a, "/")
		check("operations.serviceAccount", a, namespace != "" && name != "", "must be namespace/name")
	}
	return slices.Concat(problems, c.Packages.validate(field.NewPath("packages")), c.Webhook.validate(field.NewPath("webhook")), c.UI.validate(field.NewPath("ui")),
		c.Functions.validate(field.NewPath("functions")), c.Tracing.validate(field.NewPath("tracing")))
}

func (c PackagesConfiguration) validate(path *field.Path) (problems field.ErrorList) {
	for _, runtime := range []struct {
		of    string
		value PackageRuntime
	}{{"provider", c.Runtime.Provider}, {"function", c.Runtime.Function}} {
		if known := []PackageRuntime{DeploymentRuntime, ExternalRuntime}; !slices.Contains(known, runtime.value) {
			problems = append(problems, field.NotSupported(path.Child("runtime", runtime.of), runtime.value, known))
		}
	}
	for i, rule := range c.ProviderPermissions {
		at := path.Child("providerPermissions").Index(i)
		if len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 {
			problems = append(problems, field.Required(at, "apiGroups, resources and verbs"))
		}
		if len(rule.ResourceNames) > 0 || len(rule.NonResourceURLs) > 0 {
			problems = append(problems, field.Forbidden(at, "a rule has no resourceNames and nonResourceURLs: providers need all objects of a kind"))
		}
	}
	return problems
}

func (c WebhookConfiguration) validate(path *field.Path) (problems field.ErrorList) {
	if len(c.ClientNames) > 0 && c.ClientCA == "" {
		problems = append(problems, field.Required(path.Child("clientCA"), "with clientNames"))
	}
	if _, ok := parseService(c.Service); c.Service != "" && !ok {
		problems = append(problems, field.Invalid(path.Child("service"), c.Service, "must be namespace/name or namespace/name:port"))
	}
	if !serves(c.BindAddress) {
		if c.Service != "" || c.URL != "" || c.ClientCA != "" || c.CertPath != "" {
			problems = append(problems, field.Required(path.Child("bindAddress"), "with service, url, certPath and clientCA"))
		}
	} else if (c.Service == "") == (c.URL == "") {
		problems = append(problems, field.Required(path.Child("service"), "set either service or url, the address of the webhooks for the API server"))
	}
	return problems
}

func (c UIConfiguration) validate(path *field.Path) (problems field.ErrorList) {
	if !serves(c.BindAddress) {
		if c.CertPath != "" {
			problems = append(problems, field.Required(path.Child("bindAddress"), "with certPath"))
		}
		return problems
	}
	if _, _, err := net.SplitHostPort(c.BindAddress); err != nil {
		problems = append(problems, field.Invalid(path.Child("bindAddress"), c.BindAddress, err.Error()))
	}
	return problems
}

func (c FunctionsConfiguration) validate(path *field.Path) (problems field.ErrorList) {
	known := []packages.PreferBuiltIn{packages.PreferBuiltInAuto, packages.PreferBuiltInAlways, packages.PreferBuiltInNever}
	if !slices.Contains(known, c.PreferBuiltIn) {
		problems = append(problems, field.NotSupported(path.Child("preferBuiltIn"), c.PreferBuiltIn, known))
	}
	secret := path.Child("certificatesSecret")
	namespace, name, _ := strings.Cut(c.CertificatesSecret, "/")
	if c.CertificatesSecret != "" && (namespace == "" || name == "") {
		problems = append(problems, field.Invalid(secret, c.CertificatesSecret, "must be namespace/name"))
	}
	if c.CertPath != "" && c.CertificatesSecret != "" {
		problems = append(problems, field.Forbidden(secret, "certPath is set too"))
	}
	return problems
}

func (c TracingConfiguration) validate(path *field.Path) (problems field.ErrorList) {
	if c.Protocol != "" && c.Protocol != TracingGRPC && c.Protocol != TracingHTTP {
		problems = append(problems, field.NotSupported(path.Child("protocol"), c.Protocol, []string{TracingGRPC, TracingHTTP}))
	}
	if ratio := c.SamplingRatio; ratio != nil && !(*ratio >= 0 && *ratio <= 1) {
		problems = append(problems, field.Invalid(path.Child("samplingRatio"), *ratio, "must be from 0 to 1"))
	}
	if _, err := c.URL(); err != nil {
		problems = append(problems, field.Invalid(path.Child("endpoint"), field.OmitValueType{}, err.Error()))
	}
	return problems
}

// URL is the URL of Endpoint, with TLS unless it begins with http://; nil if there is none.
func (c TracingConfiguration) URL() (*url.URL, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	text := c.Endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("must be a URL like https://collector.example.com:4317")
	case u.User != nil:
		return nil, errors.New("must have no user or password: other users can read the flags of a process; put credentials into the variable OTEL_EXPORTER_OTLP_HEADERS")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("must be a URL like https://collector.example.com:4317, not %q", c.Endpoint)
	}
	return u, nil
}
