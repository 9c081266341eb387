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
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Options say where the API server asks.
type Options struct {
	// Address is where this process listens.
	Address string
	// Service is how the API server reaches it, if it runs in the cluster; or else URL,
	// whose port is that of the address unless it says one.
	Service *Service
	URL     string
	// Store keeps the certificate; nil for a Secret of the given namespace.
	Store     Store
	Namespace string
	// ReplaceForeign deletes the configuration that Crossplane has left behind, once the API
	// server asks here.
	ReplaceForeign bool
}

// Service names a service of the cluster.
type Service struct {
	Namespace, Name string
	Port            int // 443 by default
}

// Server answers the API server until its context ends.
type Server struct {
	Options Options
	Cluster *kube.Client
	Uses    Uses
	// Converters know how objects are converted; Announce is told where the API server has
	// them converted, each time before it may have to know. Both are optional.
	Converters Converters
	Announce   func(install.Endpoint)
	// Leads says whether this process works. One that doesn't leaves it to the one that
	// does to replace a certificate that is only old: that one tells the API server. By
	// default it works.
	Leads func() bool
	Now   func() time.Time
	Log   logr.Logger

	serving atomic.Pointer[tls.Certificate]
}

// Limits of a request.
const (
	headerLimit = 5 * time.Second
	bodyLimit   = 10 * time.Second
	idleLimit   = 2 * time.Minute
	drainLimit  = 5 * time.Second
)

// Run listens, lets the API server ask, and replaces the certificate in time.
func (s *Server) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Options.Address)
	if err != nil {
		return fmt.Errorf("listen for the API server: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(Path, Handler{Uses: s.Uses, Log: s.Log})
	if s.Converters != nil {
		mux.Handle(install.ConversionPath, Conversions{Converters: s.Converters, Metrics: telemetry.NewConversions(), Log: s.Log})
	}
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerLimit, ReadTimeout: bodyLimit, WriteTimeout: bodyLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 64 << 10,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if certificate := s.serving.Load(); certificate != nil {
				return certificate, nil
			}
			return nil, errors.New("there is no certificate yet")
		}},
		ErrorLog: log.New(lines{s.Log}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	port := listener.Addr().(*net.TCPAddr).Port
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		s.keep(ctx, port)
	}()
	select {
	case err = <-ended:
		<-keeping
		return fmt.Errorf("answer the API server: %w", err)
	case <-ctx.Done():
	}
	<-keeping
	draining, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	_ = server.Shutdown(draining) // who still waits after that is refused, and may ask again
	return nil
}

// lines logs what the server has to say, which is mostly about those who only knock.
type lines struct{ log logr.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.log.V(1).Info(strings.TrimSpace(string(text)))
	return len(text), nil
}

// When it is looked again whether the certificate is still to be used and the API server
// knows it, and when after something has failed.
const (
	lookAgain = time.Hour
	retry     = 5 * time.Second
	// handOver is when a new certificate is used in place of one that is only old: the API
	// server is told of the authority first.
	handOver = time.Minute
)

// keep has a certificate that is to be used, and the API server know it. Others may have
// exchanged it, or taken away what was written.
func (s *Server) keep(ctx context.Context, port int) {
	for {
		after, err := s.see(ctx, port)
		if err != nil && ctx.Err() == nil {
			s.Log.Error(err, "the API server can't be told where to ask; it is tried again")
			after = retry
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

// see has a certificate that is to be used, and the API server know it. It says when to
// look again.
func (s *Server) see(ctx context.Context, port int) (time.Duration, error) {
	hosts, client, err := s.reached(port)
	if err != nil {
		return 0, err
	}
	store := s.Options.Store
	if store == nil {
		store = &Secret{Cluster: s.Cluster, Namespace: s.Options.Namespace, Name: SecretName}
	}
	pair, err := store.Load(ctx)
	if err != nil {
		return 0, err
	}
	certificate, err := pair.load(hosts, s.Now())
	old := errors.Is(err, errOld)
	if old && s.Leads != nil && !s.Leads() && certificate.Leaf.NotAfter.Add(-renewal/2).After(s.Now()) {
		err = nil // it is good still
	}
	after, use := lookAgain, certificate
	if err != nil {
		if pair, err = issue(hosts, pair.Authorities, s.Now()); err != nil {
			return 0, fmt.Errorf("make a certificate: %w", err)
		}
		if err := store.Save(ctx, pair); err != nil {
			return 0, err // also when another process was faster: then that one's is taken
		}
		if certificate, err = pair.load(hosts, s.Now()); err != nil {
			return 0, err
		}
		if old {
			after = handOver // until then the one before goes on being used
		} else {
			use = certificate
		}
	}
	s.serving.Store(&use)
	if s.Announce != nil {
		s.Announce(s.endpoint(port, pair.Authorities))
	}
	client["caBundle"] = base64.StdEncoding.EncodeToString(pair.Authorities)
	if err := s.configure(ctx, client); err != nil {
		return 0, err
	}
	if err := ReplaceForeign(ctx, s.Cluster, s.Options.ReplaceForeign, s.Log); err != nil && ctx.Err() == nil {
		s.Log.Error(err, "deletions of what is in use may be refused")
	}
	return after, nil
}

// reached says how the API server reaches this process: for the certificate, and for the
// API server.
func (s *Server) reached(port int) (hosts []string, client map[string]any, err error) {
	if to := s.Options.Service; to != nil {
		name := to.Name + "." + to.Namespace + ".svc"
		service := map[string]any{"namespace": to.Namespace, "name": to.Name, "path": Path, "port": int64(cmp.Or(to.Port, 443))}
		return []string{name, name + ".cluster.local"}, map[string]any{"service": service}, nil
	}
	at, err := url.Parse(s.Options.URL)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return nil, nil, fmt.Errorf("%q is not the URL of an HTTPS server", s.Options.URL)
	}
	if at.Port() == "" {
		at.Host = net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
	}
	at.Path = Path
	return []string{at.Hostname()}, map[string]any{"url": at.String()}, nil
}

var configurationKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}

// ConfigurationName is the name of the configuration by which the API server asks.
const ConfigurationName = "usages.espalier.dev"

// webhookName is how the API server calls the webhook when it refuses. The dialect's users, and
// their tests, know a refusal for a usage by it.
const webhookName = "nousages.protection.crossplane.io"

// configuration lets the API server ask about deletions of what is labelled as in use,
// and of nothing else.
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
		_, err = s.Cluster.Create(ctx, wanted, protection.Manager)
	case err != nil:
	case sameConfiguration(current, wanted):
		return nil
	default:
		_, err = s.Cluster.Update(ctx, wanted, current.GetUID(), protection.Manager)
	}
	if err != nil {
		return fmt.Errorf("write ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// sameConfiguration says whether the API server asks as is wanted: by the same client,
// under the same name.
func sameConfiguration(a, b *unstructured.Unstructured) bool {
	asks := func(o *unstructured.Unstructured) any {
		hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		if len(hooks) != 1 {
			return nil
		}
		hook, _ := hooks[0].(map[string]any)
		return []any{hook["name"], hook["clientConfig"]}
	}
	return asks(a) != nil && object.Digest(asks(a)) == object.Digest(asks(b))
}

// Remove lets the API server no longer ask: nobody would answer, and nothing that is
// labelled could be deleted.
func Remove(ctx context.Context, c *kube.Client, log logr.Logger) {
	current, err := c.Get(ctx, configurationKind, "", ConfigurationName)
	if err != nil {
		return // there is none, or it isn't ours to see to
	}
	if err := c.Delete(ctx, current); err != nil {
		log.Error(err, "the API server still asks whether objects are in use, and nobody answers", "ValidatingWebhookConfiguration", ConfigurationName)
	}
}
