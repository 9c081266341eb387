// Package webhook attacks the webhooks of a running Espalier as somebody who reaches their port, and
// who is no user of the cluster.
package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var (
	configMap     = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	usageKind     = usage.Kinds[0]
	configuration = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
)

// requests counts what a program requests from the API server.
type requests struct {
	mu   sync.Mutex
	seen []string
}

func (r *requests) add(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, request.Method+" "+request.URL.Path)
}

// since returns the requests after the first n.
func (r *requests) since(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[n:]
}

type counted struct {
	next http.RoundTripper
	*requests
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.add(r)
	return c.next.RoundTrip(r)
}

// start runs the whole program until the test ends, and returns its requests.
func start(t *testing.T, config *rest.Config, hook webhook.Options) *requests {
	t.Helper()
	hook.Address, hook.URL, hook.Store = "127.0.0.1:0", "https://127.0.0.1", webhook.Directory(t.TempDir()+"/webhook")
	seen := &requests{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, seen} })
	ready := make(chan struct{})
	m, err := server.NewManager(server.ManagerOptions{
		Options:  manager.Options{Name: "espalier", Version: "test", Config: config, Log: logr.Discard(), HealthAddress: "0", MetricsAddress: "0", Ready: ready},
		Settings: server.Settings{Workers: 4, Usages: true}, Webhook: &hook,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	return seen
}

const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: used, namespace: $NS}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: using, namespace: $NS}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  replayDeletion: true
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
`

// target creates an object in use, and returns it once the API server calls the webhook for it.
func target(t *testing.T, w *testkit.Cluster, ns string) *unstructured.Unstructured {
	t.Helper()
	w.Apply(t, strings.ReplaceAll(objects, "$NS", ns))
	w.AwaitReady(t, usageKind, ns, "uses")
	testkit.Poll(t, "a deletion is refused", func() bool {
		err := remove(t, w, ns, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "in use by ConfigMap using")
	})
	return w.Get(t, configMap, ns, "used")
}

func remove(t *testing.T, w *testkit.Cluster, ns string, options metav1.DeleteOptions) error {
	t.Helper()
	return w.Resource(t, configMap, ns).Delete(t.Context(), "used", options)
}

// attacker sends requests to the webhooks.
type attacker struct {
	url    string
	client *http.Client
}

// newAttacker finds the port, and presents a client certificate if there is one.
func newAttacker(t *testing.T, w *testkit.Cluster, certificate *tls.Certificate) attacker {
	t.Helper()
	hooks, _, _ := unstructured.NestedSlice(w.Get(t, configuration, "", webhook.ConfigurationName).Object, "webhooks")
	at, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "url")
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an attacker does not care
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, MaxConnsPerHost: 200}
	t.Cleanup(transport.CloseIdleConnections)
	return attacker{strings.TrimSuffix(at, webhook.Path), &http.Client{Transport: transport}}
}

// post returns the status and the body of the answer.
func (a attacker) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	answer, err := a.client.Post(a.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// deletion is a forged review of a deletion, by an administrator.
func deletion(o *unstructured.Unstructured) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged","operation":"DELETE",
		"userInfo":{"username":"admin","groups":["system:masters"]},"oldObject":` + testkit.JSON(o) + `}}`
}

// survives ends the usage of an object, and checks that the object is as it was but for what marks it
// as in use.
func survives(t *testing.T, w *testkit.Cluster, before *unstructured.Unstructured) {
	t.Helper()
	if after := w.Get(t, configMap, before.GetNamespace(), "used"); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the object has changed: %s", testkit.JSON(after))
	}
	w.Delete(t, configMap, before.GetNamespace(), "using")
	w.AwaitGone(t, usageKind, before.GetNamespace(), "uses")
	if after := w.Get(t, configMap, before.GetNamespace(), "used"); after == nil || after.GetDeletionTimestamp() != nil {
		t.Errorf("the object is deleted: %v", after)
	}
}

// TestARequestOfAnybodyHasNoEffect has the API server present no client certificate that the program
// knows.
func TestARequestOfAnybodyHasNoEffect(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	seen := start(t, config, webhook.Options{})

	t.Run("No deletion is recorded and replayed", func(t *testing.T) {
		before := target(t, w, testkit.Namespace(t, config))
		a := newAttacker(t, w, nil)
		status, text := a.post(t, webhook.Path, deletion(before))
		if status != http.StatusOK || !strings.Contains(text, "this deletion will not be replayed: without webhook.clientCA") {
			t.Errorf("it answers %d %s", status, text)
		}
		survives(t, w, before)
	})

	t.Run("Requests of random names read nothing but a few lists", func(t *testing.T) {
		a := newAttacker(t, w, nil)
		before := len(seen.since(0))
		const many = 400
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				o := &unstructured.Unstructured{Object: map[string]any{}}
				o.SetAPIVersion(fmt.Sprintf("g%d.example.org/v1", i))
				o.SetKind(fmt.Sprintf("Kind%d", i))
				o.SetName(fmt.Sprintf("x%d", i))
				const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"forged","desiredAPIVersion":"example.org/v1","objects":[]}}`
				for path, body := range map[string]string{webhook.Path: deletion(o), fmt.Sprintf("%skinds%d.example.org/x", install.ConversionPath, i): review} {
					switch status, text := a.post(t, path, body); status {
					case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable:
					default:
						t.Errorf("it answers %d %s", status, text)
					}
				}
			})
		}
		all.Wait()
		if n := len(seen.since(before)); n > many/2 {
			t.Errorf("%d requests to the API server: %v", n, seen.since(before)[:20])
		}
	})
}

// TestOnlyTheAPIServerIsAnswered has the API server present a client certificate.
func TestOnlyTheAPIServerIsAnswered(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	start(t, config, webhook.Options{ClientCA: testkit.ClientCA(t, config), ClientNames: []string{embedded.WebhookClientName}})
	ns := testkit.Namespace(t, config)
	before := target(t, w, ns)

	admin, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	forged := selfSigned(t)
	for name, tc := range map[string]struct {
		certificate *tls.Certificate
		says        string
	}{
		"without a certificate":              {nil, "webhook.clientCA"},
		"with a certificate of its own":      {&forged, "webhook.clientCA"},
		"with that of a user of the cluster": {&admin, "webhook.clientNames"},
	} {
		status, text := newAttacker(t, w, tc.certificate).post(t, webhook.Path, deletion(before))
		if status != http.StatusForbidden || !strings.Contains(text, tc.says) || strings.Contains(text, "using") {
			t.Errorf("%s it answers %d %s", name, status, text)
		}
	}
	survives(t, w, before)

	// The API server is believed.
	w.Delete(t, configMap, ns, "used")
	w.AwaitGone(t, configMap, ns, "used")
	target(t, w, ns)
	if err := remove(t, w, ns, metav1.DeleteOptions{}); err == nil {
		t.Fatal("the deletion is not refused")
	}
	w.Delete(t, configMap, ns, "using")
	w.AwaitGone(t, configMap, ns, "used")
}

// selfSigned is a client certificate with the name of the API server's.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: embedded.WebhookClientName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}
