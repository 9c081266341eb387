package server

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/inflight"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
)

// The type of the configuration file.
const (
	ConfigurationAPIVersion = "config.espalier.dev/v1alpha1"
	ConfigurationKind       = "ControllerConfiguration"
)

// ControllerConfiguration is all that a user can choose of the controllers: the file of --config, of which flags set some
// fields too. docs/reference/configuration.md describes each field.
type ControllerConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Settings        `json:",inline"`
	// WatchNamespaces and WatchLabelSelector select what this installation works on, if several share the cluster.
	WatchNamespaces    []string                `json:"watchNamespaces"`
	WatchLabelSelector string                  `json:"watchLabelSelector"`
	LeaderElection     LeaderElection          `json:"leaderElection"`
	Health             HealthConfiguration     `json:"health"`
	Metrics            MetricsConfiguration    `json:"metrics"`
	Webhook            WebhookConfiguration    `json:"webhook"`
	UI                 UIConfiguration         `json:"ui"`
	Functions          FunctionsConfiguration  `json:"functions"`
	Packages           PackagesConfiguration   `json:"packages"`
	Operations         OperationsConfiguration `json:"operations"`
	AWS                AWSConfiguration        `json:"aws"`
	PostgreSQL         PostgreSQLConfiguration `json:"postgresql"`
	Tracing            TracingConfiguration    `json:"tracing"`
	Log                LogConfiguration        `json:"log"`
	// IntrospectionSocket is the path of the socket; empty for one of this user and cluster, 0 for none.
	IntrospectionSocket string `json:"introspectionSocket"`
}

// Settings are what a user can choose of the controllers themselves, apart from the process that they run in.
type Settings struct {
	// Workers is how many objects of each kind are reconciled concurrently, and RequestsInFlight how many of their requests are
	// sent at a time; 0 is the default.
	Workers          int `json:"workers"`
	RequestsInFlight int `json:"requestsInFlight"`
	// Poll is how often external resources are observed without an event; 0 for the default.
	Poll metav1.Duration `json:"poll"`
	// Dialects are served even if another program has installed their definitions. Without any, all dialects are served whose
	// definitions no other program has installed.
	Dialects []Dialect `json:"dialects"`
	// AllowCRDDeletion removes the CustomResourceDefinition of a deleted definition without instances.
	AllowCRDDeletion bool `json:"allowCRDDeletion"`
	// RequireServiceAccount refuses cluster-scoped definitions without a service account.
	RequireServiceAccount bool `json:"requireServiceAccount"`
	// ResourceGroups bounds which kinds ResourceGroups define.
	ResourceGroups ResourceGroups `json:"resourceGroups"`
	// SecretOutputs is what happens to definitions of graphs that put data of Secrets into outputs; by default they are refused.
	SecretOutputs graph.SecretOutputs `json:"secretOutputs"`
	// InstanceLimits bound each instance, and WatchLimits the watches for instances; a zero is a default.
	InstanceLimits plan.Limits  `json:"instanceLimits"`
	WatchLimits    watch.Limits `json:"watchLimits"`
	// AdmissionPolicies installs the ValidatingAdmissionPolicies of definitions.
	AdmissionPolicies bool `json:"admissionPolicies"`
	// Usages installs the kinds of usages. Kinds that exist are served in any case.
	Usages bool `json:"usages"`
	// Graphs serves the kind Graph of kro.run.
	Graphs bool `json:"graphs"`
	// MoreColumns adds columns to served kinds in kubectl get, beyond those of their dialects.
	MoreColumns bool `json:"moreColumns"`
}

// ResourceGroups bounds which kinds ResourceGroups define: authors of a namespace write them, and their kinds are served in the
// whole cluster.
type ResourceGroups struct {
	// APIGroups are the API groups of the kinds; *.example.com stands for all below example.com, and * for all. Without any,
	// all are allowed.
	APIGroups []string `json:"apiGroups"`
	// MaxKinds is how many kinds the ResourceGroups of a namespace define; 0 for no limit.
	MaxKinds int `json:"maxKinds"`
}

// LeaderElection makes one of several processes the leader.
type LeaderElection struct {
	Enabled bool `json:"enabled"`
	// Namespace has the leases, the signing key and the certificate of the webhooks.
	Namespace     string          `json:"namespace"`
	LeaseDuration metav1.Duration `json:"leaseDuration"`
}

// HealthConfiguration is how /healthz and /readyz are served.
type HealthConfiguration struct {
	BindAddress string `json:"bindAddress"`
}

// MetricsConfiguration is how /metrics is served.
type MetricsConfiguration struct {
	BindAddress string `json:"bindAddress"`
	Secure      bool   `json:"secure"`
	CertPath    string `json:"certPath"`
}

// WebhookConfiguration is how the admission webhook for usages and the conversion webhook are served.
type WebhookConfiguration struct {
	BindAddress string `json:"bindAddress"`
	// Service, as namespace/name or namespace/name:port, or else URL is how the API server reaches them.
	Service string `json:"service"`
	URL     string `json:"url"`
	// CertPath is a directory with a certificate that another program renews.
	CertPath string `json:"certPath"`
	// ClientCA is a file with the authorities of the API server's client certificate, and ClientNames are its allowed names.
	ClientCA    string   `json:"clientCA"`
	ClientNames []string `json:"clientNames"`
	// ReplaceCrossplane deletes the webhook configuration of a Crossplane that was stopped, also without a webhook.
	ReplaceCrossplane bool `json:"replaceCrossplane"`
}

// UIConfiguration is how the page of 'espalier ui' is served.
type UIConfiguration struct {
	BindAddress string `json:"bindAddress"`
	CertPath    string `json:"certPath"`
}

// FunctionsConfiguration is how functions are served and called.
type FunctionsConfiguration struct {
	// Local are functions as NAME=./program or NAME=HOST:PORT, and Environment the variables of their programs.
	Local       []string `json:"local"`
	Environment []string `json:"environment"`
	Development bool     `json:"development"`
	// RunPackages fetches the packages of Functions that nothing else serves and runs them on this machine.
	RunPackages bool `json:"runPackages"`
	// CertPath is a directory with the certificate for calls of packages; CertificatesSecret is a Secret, as namespace/name.
	CertPath           string                 `json:"certPath"`
	CertificatesSecret string                 `json:"certificatesSecret"`
	PreferBuiltIn      packages.PreferBuiltIn `json:"preferBuiltIn"`
}

// PackagesConfiguration is whether and how packages are installed.
type PackagesConfiguration struct {
	Enabled bool `json:"enabled"`
	// Namespace has what runs, and the Secrets with credentials; by default the namespace of the leader election.
	Namespace string `json:"namespace"`
	// CacheDir is a directory for what is read from registries; by default one of this user.
	CacheDir string `json:"cacheDir"`
	// CABundle is a file with certificates that are trusted besides those of the system.
	CABundle string `json:"caBundle"`
	// InsecureRegistries are reached without TLS, or without checking it.
	InsecureRegistries []string `json:"insecureRegistries"`
	// Runtime is what runs the programs of packages.
	Runtime PackageRuntimes `json:"runtime"`
	// ProviderPermissions bound what is granted to the ServiceAccounts of providers. The controllers can grant only what they have
	// themselves. Without any, nothing is granted.
	ProviderPermissions []rbacv1.PolicyRule `json:"providerPermissions"`
	// DefaultActivations are patterns of the definitions of managed resources that the first activation policy activates, as in
	// path.Match. Without any, there is no policy until a user makes one.
	DefaultActivations []string `json:"defaultActivations"`
}

// PackageRuntimes is what runs the programs of each kind of packages.
type PackageRuntimes struct {
	Provider PackageRuntime `json:"provider"`
	Function PackageRuntime `json:"function"`
}

// PackageRuntime is what runs a program.
type PackageRuntime string

// What runs programs.
const (
	// DeploymentRuntime runs them as Deployments.
	DeploymentRuntime PackageRuntime = "Deployment"
	// ExternalRuntime leaves that to another program, which reports it in the statuses of revisions.
	ExternalRuntime PackageRuntime = "External"
)

// OperationsConfiguration is whether and how operations are run.
type OperationsConfiguration struct {
	Enabled bool `json:"enabled"`
	// ServiceAccount is the account, as namespace/name, of operations that name none.
	ServiceAccount string `json:"serviceAccount"`
}

// AWSConfiguration is whether and how the provider of AWS runs in the process of the controllers.
type AWSConfiguration struct {
	Enabled            bool   `json:"enabled"`
	TypesFile          string `json:"typesFile"`
	LocalEndpoints     bool   `json:"localEndpoints"`
	NamespacedIdentity bool   `json:"namespacedIdentity"`
}

// PostgreSQLConfiguration is whether and how the provider of PostgreSQL runs in the process of the controllers.
type PostgreSQLConfiguration struct {
	Enabled      bool `json:"enabled"`
	LocalServers bool `json:"localServers"`
}

// TracingConfiguration is where traces are exported to. The variables OTEL_* of OpenTelemetry apply where a field is empty.
type TracingConfiguration struct {
	Endpoint string `json:"endpoint"`
	Protocol string `json:"protocol"`
	// SamplingRatio is the part of the traces that is recorded; nil if it is not given.
	SamplingRatio *float64 `json:"samplingRatio"`
}

// LogConfiguration is how log lines are written.
type LogConfiguration struct {
	Format    manager.LogFormat `json:"format"`
	Verbosity int               `json:"verbosity"`
}

// DefaultConfiguration returns the configuration of 'espalier run' without a file and flags.
func DefaultConfiguration() ControllerConfiguration {
	return ControllerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: ConfigurationAPIVersion, Kind: ConfigurationKind},
		Settings: Settings{
			Workers: 16, RequestsInFlight: inflight.DefaultSeats, Poll: metav1.Duration{Duration: provider.DefaultPollInterval},
			ResourceGroups: ResourceGroups{APIGroups: []string{v1alpha1.GroupVersion.Group}, MaxKinds: 100},
			SecretOutputs:  graph.RefuseSecretOutputs, InstanceLimits: plan.Limits{}.WithDefaults(), WatchLimits: watch.Limits{}.WithDefaults(),
			AdmissionPolicies: true, Usages: true,
		},
		LeaderElection: LeaderElection{Enabled: true, LeaseDuration: metav1.Duration{Duration: 15 * time.Second}},
		Health:         HealthConfiguration{BindAddress: "127.0.0.1:8081"},
		Metrics:        MetricsConfiguration{BindAddress: "127.0.0.1:8080"},
		Webhook:        WebhookConfiguration{BindAddress: "0"},
		UI:             UIConfiguration{BindAddress: "0"},
		Functions:      FunctionsConfiguration{PreferBuiltIn: packages.PreferBuiltInAuto},
		Packages:       PackagesConfiguration{Runtime: PackageRuntimes{Provider: DeploymentRuntime, Function: DeploymentRuntime}, DefaultActivations: []string{"*"}},
		Log:            LogConfiguration{Format: manager.LogText},
	}
}

// ManagerOptions returns the options of a valid configuration. The caller adds those that depend on this machine: the cluster,
// the providers, the programs of functions and the page.
func (c ControllerConfiguration) ManagerOptions() (ManagerOptions, error) {
	selected, err := shard.Parse(c.WatchNamespaces, c.WatchLabelSelector)
	return ManagerOptions{
		Options: manager.Options{
			HealthAddress: c.Health.BindAddress, MetricsAddress: c.Metrics.BindAddress, MetricsSecure: c.Metrics.Secure, MetricsCertPath: c.Metrics.CertPath,
			LeaderElection: c.LeaderElection.Enabled, LeaderElectionNamespace: c.LeaderElection.Namespace,
			LeaseDuration: c.LeaderElection.LeaseDuration.Duration, Shard: selected,
		},
		Settings: c.Settings, Packages: c.packageOptions(), Operations: c.operationOptions(), Webhook: c.webhookOptions(), ReplaceCrossplaneWebhook: c.Webhook.ReplaceCrossplane, Functions: c.Functions.options(),
	}, err
}

// webhookOptions returns nil if no webhook is served.
func (c ControllerConfiguration) webhookOptions() *webhook.Options {
	if !serves(c.Webhook.BindAddress) {
		return nil
	}
	o := &webhook.Options{Address: c.Webhook.BindAddress, URL: c.Webhook.URL, Namespace: cmp.Or(c.LeaderElection.Namespace, manager.PodNamespace()),
		ClientCA: c.Webhook.ClientCA, ClientNames: c.Webhook.ClientNames}
	if c.Webhook.CertPath != "" {
		o.Store = webhook.Mounted(c.Webhook.CertPath)
	}
	if service, ok := parseService(c.Webhook.Service); ok {
		o.Service = &service
	}
	return o
}

// serves reports whether an address is one to listen on.
func serves(address string) bool { return address != "" && address != "0" }

// parseService reads namespace/name or namespace/name:port.
func parseService(text string) (s webhook.Service, ok bool) {
	name, port, hasPort := strings.Cut(text, ":")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return s, false
		}
		s.Port = int(n)
	}
	s.Namespace, s.Name, ok = strings.Cut(name, "/")
	return s, ok && s.Namespace != "" && s.Name != ""
}

func (c FunctionsConfiguration) options() packages.Options {
	o := packages.Options{PreferBuiltIn: c.PreferBuiltIn, AllowDevelopment: c.Development}
	if c.CertPath != "" {
		o.Certificates = pipeline.CertificatesFromDirectory(c.CertPath)
	}
	o.CertificatesSecret.Namespace, o.CertificatesSecret.Name, _ = strings.Cut(c.CertificatesSecret, "/")
	return o
}

// Simulated returns the settings without what is of no use in a simulation: nobody writes definitions there.
func (s Settings) Simulated() Settings {
	s.AdmissionPolicies = false
	return s
}
