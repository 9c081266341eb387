package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var leaseKey = object.Key{Group: "coordination.k8s.io", Kind: "Lease", Namespace: "system", Name: manager.LeaseName("espalier")}

// replica is a whole program in a synctest bubble.
type replica struct {
	ready  chan struct{}
	cancel context.CancelFunc
	ended  chan error
}

// startReplica runs a program with leader election until nothing happens any more.
func startReplica(t *testing.T, c *fakekube.Cluster) *replica {
	t.Helper()
	r := &replica{ready: make(chan struct{}), ended: make(chan error, 1)}
	o := optionsFor(c)
	o.LeaderElection, o.LeaderElectionNamespace, o.Ready = true, "system", r.ready
	m, err := NewManager(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.ended <- m.Run(ctx) }()
	synctest.Wait()
	return r
}

func (r *replica) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

func holder(c *fakekube.Cluster) string {
	lease := c.Object(leaseKey)
	if lease == nil {
		return ""
	}
	name, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return name
}

func installs(c *fakekube.Cluster) bool {
	return slices.ContainsFunc(c.RequestsSoFar(), func(request string) bool { return strings.HasPrefix(request, "apply CustomResourceDefinition ") })
}

func TestALeaderReleasesItsLeaseWhenItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		r := startReplica(t, c)
		if holder(c) == "" || !r.isReady() {
			t.Errorf("the holder is %q, ready: %t", holder(c), r.isReady())
		}
		r.cancel()
		if err := end(t, r.ended); err != nil {
			t.Errorf("it ends with %v", err)
		}
		if got := holder(c); got != "" {
			t.Errorf("the holder is still %q: another process waits until the lease expires", got)
		}
	})
}

func TestAReplicaRunsItsControllersOnceTheLeaseHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		c.Add(fakekube.Parse(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: ` + leaseKey.Name + `, namespace: system}
spec: {holderIdentity: another, leaseDurationSeconds: 15, acquireTime: "` + now + `", renewTime: "` + now + `"}
`))
		r := startReplica(t, c)
		pass(10 * time.Second)
		if holder(c) != "another" || r.isReady() || installs(c) {
			t.Errorf("while another process holds the lease: the holder is %q, ready: %t, installs: %t", holder(c), r.isReady(), installs(c))
		}
		if !slices.Contains(c.RequestsSoFar(), "create SelfSubjectRulesReview ") {
			t.Error("the permissions of a replica are unknown until it is the leader")
		}
		pass(10 * time.Second)
		if holder(c) == "another" || !r.isReady() {
			t.Errorf("once the lease has expired: the holder is %q, ready: %t", holder(c), r.isReady())
		}
		r.cancel()
		if err := end(t, r.ended); err != nil {
			t.Errorf("it ends with %v", err)
		}
	})
}

func TestALeaderThatCannotRenewItsLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		r := startReplica(t, c)
		if !r.isReady() {
			t.Fatal("it isn't ready")
		}
		c.SetBefore(refuse("", errAway))
		lost := time.Now()
		if err := end(t, r.ended); message(err) != "leader election lost" {
			t.Errorf("it ends with %v", err)
		}
		if after := time.Since(lost); after >= 15*time.Second {
			t.Errorf("it ends after %s, when another process may be the leader", after)
		}
	})
}

func TestAnotherLeaderEndsThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		r := startReplica(t, c)
		c.Change(leaseKey, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "another", "spec", "holderIdentity")
		})
		if err := end(t, r.ended); message(err) != "leader election lost" {
			t.Errorf("it ends with %v", err)
		}
		if got := holder(c); got != "another" {
			t.Errorf("the holder is %q", got)
		}
	})
}

func TestAProgramEndsIfItsKindsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		c.Before = refuse("dry-run apply CustomResourceDefinition holds.espalier.dev", forbidden)
		r := startReplica(t, c)
		if err := end(t, r.ended); !strings.HasPrefix(message(err), "nothing was installed: ") || r.isReady() {
			t.Errorf("it ends with %v, ready: %t", err, r.isReady())
		}
	})
}

func TestAProgramWithoutAWebhookRemovesItsConfiguration(t *testing.T) {
	const (
		ours      = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: usages.espalier.dev}}"
		unrelated = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: unrelated}}"
	)
	cases := map[string]struct {
		reason  string
		replace bool
		before  func(string) error
		want    []string
		logged  string
	}{
		"by default":           {"it would deny all deletions of objects in use; Crossplane may be running", false, nil, []string{"crossplane-no-usages", "unrelated"}, webhook.ForeignNote},
		"Crossplane's, too":    {"Crossplane is stopped", true, nil, []string{"unrelated"}, "deleted Crossplane's ValidatingWebhookConfiguration"},
		"it must not read any": {"the program runs on, and says what follows", true, refuse("get Validating", forbidden), []string{"crossplane-no-usages", "unrelated", "usages.espalier.dev"}, "deletions of objects with the in-use label can be denied"},
		"it must not delete":   {"the program runs on, and says what follows", false, refuse("delete Validating", forbidden), []string{"crossplane-no-usages", "unrelated", "usages.espalier.dev"}, "the API server still calls the webhook, which is not served"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fakekube.New(ours, unrelated, foreignWebhook)
				c.Before = tc.before
				var logging sync.Mutex
				var logged strings.Builder
				log := funcr.New(func(_, args string) {
					logging.Lock()
					defer logging.Unlock()
					logged.WriteString(args)
				}, funcr.Options{})
				o := optionsFor(c)
				o.ReplaceCrossplaneWebhook = tc.replace
				controllers, err := NewControllers(Options{Config: o.Config, Settings: Settings{Workers: 1}, Log: log})
				if err != nil {
					t.Fatal(err)
				}
				defer controllers.Functions.Close()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- runInEveryReplica(ctx, controllers, o) }()
				synctest.Wait()
				var got []string
				for _, key := range c.Keys() {
					got = append(got, key.Name)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%s: %v are left", tc.reason, got)
				}
				if !strings.Contains(logged.String(), tc.logged) {
					t.Errorf("%s: logged %s", tc.reason, logged.String())
				}
				select {
				case err := <-ended:
					t.Errorf("it does not check permissions any more: %v", err)
				default:
				}
				cancel()
				if err := end(t, ended); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// withWebhook returns controllers that serve webhooks at a local address.
func withWebhook(t *testing.T, c *fakekube.Cluster, address string) (*Controllers, ManagerOptions) {
	t.Helper()
	o := optionsFor(c)
	o.Webhook = &webhook.Options{Address: address, URL: "https://127.0.0.1", Store: webhook.Directory(t.TempDir())}
	controllers, err := NewControllers(Options{Config: o.Config, Settings: Settings{Workers: 1}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(controllers.Functions.Close)
	return controllers, o
}

// TestEveryReplicaServesTheWebhooks calls both webhooks at the address that definitions get,
// once the API server has it.
func TestEveryReplicaServesTheWebhooks(t *testing.T) {
	c := fakekube.New()
	configured := make(chan struct{})
	once := sync.OnceFunc(func() { close(configured) })
	c.After = func(request string) error {
		if strings.HasPrefix(request, "apply ValidatingWebhookConfiguration usages.espalier.dev") {
			once()
		}
		return nil
	}
	controllers, o := withWebhook(t, c, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runInEveryReplica(ctx, controllers, o) }()
	select {
	case <-configured:
	case err := <-ended:
		t.Fatal(err)
	}
	at, _ := controllers.conversions.Endpoint()
	if at == nil {
		t.Fatal("definitions do not get the address")
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(at.CABundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	post := func(path, body string) (review admissionv1.AdmissionReview) {
		t.Helper()
		answer, err := (&http.Client{Transport: transport}).Post(at.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(&review); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s: %v", path, answer.Status, err)
		}
		return review
	}
	deletion := post(webhook.Path, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"DELETE",
		"oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"prod"}}}}`)
	if deletion.Response == nil || !deletion.Response.Allowed || deletion.Response.UID != "1" {
		t.Errorf("the deletion of an object without usages is answered %+v", deletion.Response)
	}
	if review := post(install.ConversionPath+"apps.kro.run/digest", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1"}}`); review.Kind != "ConversionReview" {
		t.Errorf("a conversion is answered with a %q", review.Kind)
	}
	transport.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAProgramEndsIfItCannotServeItsWebhooks(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	controllers, o := withWebhook(t, fakekube.New(), taken.Addr().String())
	if err := runInEveryReplica(t.Context(), controllers, o); !strings.HasPrefix(message(err), "listen for webhook requests: ") {
		t.Errorf("the error is %v", err)
	}
}
