package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/issuer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Options configure the webhook server.
type Options struct {
	// Address is the address that this process listens on.
	Address string
	// Service is how the API server reaches this process in the cluster. Without it, URL is,
	// with Address's port if it has none.
	Service *Service
	URL     string
	// Store stores the certificate; nil for a Secret in Namespace.
	Store     Store
	Namespace string
	// ClientCA is a file with the certificate authorities, in PEM, of the client certificate that the
	// API server presents to admission webhooks; empty if it presents none. ClientNames are the
	// allowed common names of the certificate; empty for any.
	ClientCA    string
	ClientNames []string
	// ReplaceForeign deletes Crossplane's webhook configuration once this one is written.
	ReplaceForeign bool
}

// Service is a Service of the cluster.
type Service struct {
	Namespace, Name string
	Port            int // 443 by default
}

// Server is the webhook server.
type Server struct {
	Options Options
	Cluster *kube.Client
	Usages  Usages
	// Converters know how objects are converted. OnEndpoint is called with the address of the
	// conversion webhook each time that may have changed, before the API server uses it. Both
	// are optional.
	Converters Converters
	OnEndpoint func(install.Endpoint)
	// IsLeader reports whether this process is the leader; nil for always. The other processes
	// leave the renewal of an expiring certificate to the leader, which writes the webhook
	// configuration.
	IsLeader func() bool
	Now      func() time.Time
	Log      logr.Logger

	serving atomic.Pointer[tls.Certificate]
}

// Limits of a connection. The limits of a request are in limits.go.
const (
	headerLimit = 5 * time.Second
	bodyLimit   = 10 * time.Second
	idleLimit   = 2 * time.Minute
	drainLimit  = 5 * time.Second
)

// Run serves the webhooks until the context ends. It writes the webhook configuration, and
// renews the certificate in time.
func (s *Server) Run(ctx context.Context) error {
	clients, err := s.clients()
	if err != nil {
		return err
	}
	tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Options.Address)
	if err != nil {
		return fmt.Errorf("listen for webhook requests: %w", err)
	}
	listener := limitConnections(tcp, maxConnections)
	server := &http.Server{
		Handler: s.handler(clients), ReadHeaderTimeout: headerLimit, ReadTimeout: bodyLimit, WriteTimeout: bodyLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 64 << 10, ConnState: listener.recordState,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if certificate := s.serving.Load(); certificate != nil {
				return certificate, nil
			}
			return nil, errors.New("there is no certificate yet")
		}},
		ErrorLog: log.New(logWriter{s.Log}, "", 0),
	}
	if clients != nil {
		server.TLSConfig = clients.config(server.TLSConfig)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go clients.loadLoop(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	port := listener.Addr().(*net.TCPAddr).Port
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		s.ensureLoop(ctx, port)
	}()
	select {
	case err = <-ended:
		<-keeping
		return fmt.Errorf("serve webhook requests: %w", err)
	case <-ctx.Done():
	}
	<-keeping
	draining, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	_ = server.Shutdown(draining) // requests that take longer are cut off, and may be retried
	return nil
}

// clients returns nil if no file with authorities is set.
func (s *Server) clients() (*clientAuthorities, error) {
	if s.Options.ClientCA == "" {
		s.Log.Info("the webhooks accept requests of every client, so they record no deletions for replayDeletion; see webhook.clientCA")
		return nil, nil
	}
	c := &clientAuthorities{file: s.Options.ClientCA, names: s.Options.ClientNames, log: s.Log, now: s.Now}
	return c, c.load()
}

// handler serves both webhooks within their limits. The API server presents a client certificate
// to admission webhooks only; a conversion has no effect but its answer.
func (s *Server) handler(clients *clientAuthorities) http.Handler {
	metrics, log := telemetry.NewWebhooks(), limitLog(s.Log)
	mux := http.NewServeMux()
	var admission http.Handler = newLimiter("admission", maxRequest, admissionLimit, metrics, Handler{Usages: s.Usages, Authenticated: clients != nil, Log: log})
	if clients != nil {
		admission = clients.require("admission", metrics, admission)
	}
	mux.Handle(Path, admission)
	if s.Converters != nil {
		conversions := NewConversions(s.Converters, telemetry.NewConversions(), log)
		mux.Handle(install.ConversionPath, newLimiter("conversion", maxConversionRequest, conversionLimit, metrics, conversions))
	}
	return mux
}

// logWriter writes the HTTP server's errors to the log, at level 1 because most are about clients that disconnect.
type logWriter struct{ log logr.Logger }

func (l logWriter) Write(text []byte) (int, error) {
	l.log.V(1).Info(strings.TrimSpace(string(text)))
	return len(text), nil
}

const (
	// checkInterval is how often the certificate and the webhook configuration are checked,
	// and retryInterval how often after a failure.
	checkInterval = time.Hour
	retryInterval = 5 * time.Second
	// mountedInterval is how often a certificate is checked that another program renews.
	mountedInterval = time.Minute
	// rotationDelay is how long an expiring certificate is still served after its replacement
	// is issued: the API server has to get the new authority first.
	rotationDelay = time.Minute
)

// ensureLoop calls ensure until the context ends, because other processes may replace the certificate, and other
// clients may delete the configuration.
func (s *Server) ensureLoop(ctx context.Context, port int) {
	for {
		after, err := s.ensure(ctx, port)
		if err != nil && ctx.Err() == nil {
			s.Log.Error(err, "cannot configure the webhook; retrying")
			after = retryInterval
		}
		due := time.NewTimer(after)
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-due.C:
		}
	}
}

// ensure serves a valid certificate, and writes its authorities into the webhook configuration. It
// returns when to check again.
func (s *Server) ensure(ctx context.Context, port int) (time.Duration, error) {
	hosts, client, err := s.addresses(port)
	if err != nil {
		return 0, err
	}
	authorities, after, err := s.ensureCertificate(ctx, hosts)
	if err != nil {
		return 0, err
	}
	if s.OnEndpoint != nil {
		s.OnEndpoint(s.endpoint(port, authorities))
	}
	client["caBundle"] = base64.StdEncoding.EncodeToString(authorities)
	if err := s.configure(ctx, client); err != nil {
		return 0, err
	}
	if err := ReplaceForeign(ctx, s.Cluster, s.Options.ReplaceForeign, s.Log); err != nil && ctx.Err() == nil {
		s.Log.Error(err, "deletions of objects with the in-use label can be denied")
	}
	return after, nil
}

// ensureCertificate serves the stored certificate, or a new one if the stored one is not valid for the hosts
// or expires soon. It returns the authorities for clients, and when to check again.
func (s *Server) ensureCertificate(ctx context.Context, hosts []string) (authorities []byte, after time.Duration, err error) {
	store := s.store()
	pair, err := store.Load(ctx)
	if err != nil {
		return nil, 0, err
	}
	stored, err := pair.load(hosts, s.Now())
	isExpiring := errors.Is(err, issuer.ErrExpiring)
	if err == nil || isExpiring && s.isRenewedElsewhere(store, stored) {
		s.serving.Store(&stored)
		return pair.Authorities, checkIntervalOf(store), nil
	}
	if pair, err = issue(hosts, pair.Authorities, s.Now()); err != nil {
		return nil, 0, fmt.Errorf("issue a certificate: %w", err)
	}
	if err := store.Save(ctx, pair); err != nil {
		return nil, 0, err // after errConflict, the next attempt loads the other process's certificate
	}
	issued, err := pair.load(hosts, s.Now())
	if err != nil {
		return nil, 0, err
	}
	if isExpiring {
		s.serving.Store(&stored) // clients might not have the new authorities yet
		return pair.Authorities, rotationDelay, nil
	}
	s.serving.Store(&issued)
	return pair.Authorities, checkIntervalOf(store), nil
}

// store is a Secret by default.
func (s *Server) store() Store {
	if s.Options.Store != nil {
		return s.Options.Store
	}
	return &Secret{Cluster: s.Cluster, Namespace: s.Options.Namespace, Name: SecretName}
}

// isRenewedElsewhere reports whether this process leaves the renewal of an expiring certificate to the program that
// renews a mounted one, or to the leader while it is valid for long enough.
func (s *Server) isRenewedElsewhere(store Store, certificate tls.Certificate) bool {
	if _, mounted := store.(Mounted); mounted {
		return true
	}
	return s.IsLeader != nil && !s.IsLeader() && certificate.Leaf.NotAfter.Add(-renewBefore/2).After(s.Now())
}

func checkIntervalOf(store Store) time.Duration {
	if _, mounted := store.(Mounted); mounted {
		return mountedInterval
	}
	return checkInterval
}

// addresses returns how the API server reaches this process: the hosts for the certificate,
// and the client configuration of the webhook.
func (s *Server) addresses(port int) (hosts []string, client map[string]any, err error) {
	if to := s.Options.Service; to != nil {
		name := to.Name + "." + to.Namespace + ".svc"
		service := map[string]any{"namespace": to.Namespace, "name": to.Name, "path": Path, "port": int64(cmp.Or(to.Port, 443))}
		return []string{name, name + ".cluster.local"}, map[string]any{"service": service}, nil
	}
	at, err := url.Parse(s.Options.URL)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return nil, nil, fmt.Errorf("the URL of the webhook is %q; it must be https://HOST, with a port if needed", s.Options.URL)
	}
	if at.Port() == "" {
		at.Host = net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
	}
	at.Path = Path
	return []string{at.Hostname()}, map[string]any{"url": at.String()}, nil
}

var configurationKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}

// ConfigurationName is the name of the ValidatingWebhookConfiguration.
const ConfigurationName = "usages.espalier.dev"

// webhookName is how the API server calls the webhook when it refuses. The dialect's users, and
// their tests, know a refusal for a usage by it.
const webhookName = "nousages.protection.crossplane.io"

// configuration is the webhook configuration, for deletions of objects with the in-use label
// only.
func configuration(client map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"webhooks": []any{map[string]any{
			"name":                    webhookName,
			"clientConfig":            client,
			"admissionReviewVersions": []any{"v1"},
			"objectSelector":          map[string]any{"matchLabels": map[string]any{v1beta1.InUseLabel: "true"}},
			"rules": []any{map[string]any{
				"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*"}, "operations": []any{"DELETE"}, "scope": "*",
			}},
			"failurePolicy":  "Fail",
			"sideEffects":    "NoneOnDryRun",
			"timeoutSeconds": int64(5),
		}},
	}}
	o.SetGroupVersionKind(configurationKind)
	o.SetName(ConfigurationName)
	o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "espalier"})
	return o
}

func (s *Server) configure(ctx context.Context, client map[string]any) error {
	wanted := configuration(client)
	current, err := s.Cluster.Get(ctx, configurationKind, "", ConfigurationName)
	switch {
	case kube.IsObjectNotFound(err, ConfigurationName):
		_, err = s.Cluster.Create(ctx, wanted, protection.FieldManager)
	case err != nil:
	case sameConfiguration(current, wanted):
		return nil
	default:
		_, err = s.Cluster.Update(ctx, wanted, current.GetUID(), protection.FieldManager)
	}
	if err != nil {
		return fmt.Errorf("write ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// sameConfiguration reports whether both configurations have one webhook with the same name
// and client configuration.
func sameConfiguration(a, b *unstructured.Unstructured) bool {
	client := func(o *unstructured.Unstructured) any {
		hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		if len(hooks) != 1 {
			return nil
		}
		hook, _ := hooks[0].(map[string]any)
		return []any{hook["name"], hook["clientConfig"]}
	}
	return client(a) != nil && object.Digest(client(a)) == object.Digest(client(b))
}

// RemoveConfiguration deletes the webhook configuration: while the webhook is not served, it
// would deny all deletions of objects with the in-use label.
func RemoveConfiguration(ctx context.Context, c *kube.Client, log logr.Logger) {
	current, err := c.Get(ctx, configurationKind, "", ConfigurationName)
	if err != nil {
		return // it does not exist, or this program is not allowed to read it
	}
	if err := c.Delete(ctx, current); err != nil {
		log.Error(err, "cannot delete the webhook configuration: the API server still calls the webhook, which is not served",
			"ValidatingWebhookConfiguration", ConfigurationName)
	}
}
