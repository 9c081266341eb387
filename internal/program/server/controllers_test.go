package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// running are controllers that run in a synctest bubble.
type running struct {
	*Controllers
	cancel context.CancelFunc
	ended  chan error
}

// run runs controllers until nothing happens any more.
func run(t *testing.T, o Options) *running {
	t.Helper()
	o.Workers, o.Log, o.Events, o.Version = 1, logr.Discard(), telemetry.NoEvents{}, "test"
	c, err := NewControllers(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{c, cancel, make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	synctest.Wait()
	return r
}

// stop ends the controllers, and fails the test if they fail.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := end(t, r.ended); err != nil {
		t.Errorf("the controllers end with: %v", err)
	}
}

// end returns the error of a program that is to end soon.
func end(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Hour): // of the bubble
		t.Fatal("it does not end")
		return nil
	}
}

// pass lets time pass in a bubble, until nothing happens any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// served are the kinds that have controllers.
func (r *running) served() (out []string) {
	for _, kind := range r.Engine.Kinds() {
		out = append(out, kind.Kind)
	}
	slices.Sort(out)
	return out
}

var (
	v1ConfigMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

	brokenProvider = []managed.Provider{{Name: "broken", CRDs: fstest.MapFS{"things.yaml": {Data: []byte("spec: [")}}}}

	graphKinds       = []string{"GraphRevision", "ResourceGraphDefinition", "ResourceGroup"}
	compositionKinds = []string{"CompositeResourceDefinition", "Composition", "CompositionRevision", "Function", "FunctionRevision", "Usage"}
)

func TestControllersServeTheChosenDialects(t *testing.T) {
	cases := map[string]struct {
		reason  string
		objects string
		change  func(*Options)
		want    []string
		note    string
	}{
		"by default":                            {"both are served", "", func(*Options) {}, slices.Concat(compositionKinds, graphKinds), ""},
		"one is configured":                     {"only it is served", "", func(o *Options) { o.Dialects = []Dialect{Graph} }, graphKinds, ""},
		"another program has installed one":     {"two programs would undo each other's work", foreignGraphs, func(*Options) {}, compositionKinds, "the graph dialect is not served"},
		"the other program's is configured":     {"that program is stopped", foreignGraphs, func(o *Options) { o.Dialects = []Dialect{Graph} }, graphKinds, ""},
		"usages are served beside compositions": {"they protect objects of any kind", "", func(o *Options) { o.Dialects, o.Usages = []Dialect{Graph}, true }, slices.Concat([]string{"ClusterUsage"}, graphKinds, []string{"Usage"}), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fakekube.New(tc.objects)
				o := Options{Config: c.Config()}
				tc.change(&o)
				r := run(t, o)
				defer r.stop(t)
				if err := r.CheckStarted(); err != nil {
					t.Fatal(err)
				}
				slices.Sort(tc.want)
				if diff := cmp.Diff(tc.want, r.served()); diff != "" {
					t.Errorf("%s: kinds with controllers (-want +got):\n%s", tc.reason, diff)
				}
				if notes := strings.Join(r.Notes(), "\n"); !strings.HasPrefix(notes, tc.note) || (notes == "") != (tc.note == "") {
					t.Errorf("%s: the notes are %q", tc.reason, notes)
				}
			})
		})
	}
}

// TestNoKindIsReconciledBeforeHoldsAreKnown compares the order of requests: while it is not
// known whether there is a Hold, nothing may be reconciled, and Holds are unknown until their
// kind is installed.
func TestNoKindIsReconciledBeforeHoldsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		r := run(t, Options{Config: c.Config()})
		r.stop(t)
		order := []string{
			"list CustomResourceDefinition ",
			"dry-run apply CustomResourceDefinition resourcegraphdefinitions.kro.run",
			"apply CustomResourceDefinition resourcegraphdefinitions.kro.run",
			"list Hold ",
			"list ResourceGraphDefinition ",
		}
		var at []int
		for _, request := range order {
			at = append(at, slices.Index(c.Requests, request))
		}
		if at[0] < 0 || !slices.IsSorted(at) {
			t.Errorf("the requests %q are numbers %v of\n%s", order, at, strings.Join(c.Requests, "\n"))
		}
	})
}

func TestControllersThatCannotReadHoldsDoNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		c.Before = refuse("list Hold", forbidden)
		r := run(t, Options{Config: c.Config()})
		if got := message(r.CheckStarted()); !strings.HasPrefix(got, "the controllers are not running yet: cannot determine whether there is a Hold: ") {
			t.Errorf("the readiness is %q", got)
		}
		if served := r.served(); len(served) > 0 {
			t.Errorf("%v are served", served)
		}
		c.SetBefore(nil)
		pass(time.Hour) // the watch is retried
		if err := r.CheckStarted(); err != nil {
			t.Errorf("once Holds can be read: %v", err)
		}
		r.stop(t)
	})
}

func TestControllersWaitForAnAPIServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		c.Before = refuse("", errAway)
		r := run(t, Options{Config: c.Config()})
		pass(time.Hour)
		if got := message(r.CheckStarted()); got != "the controllers are not running yet" {
			t.Errorf("the readiness is %q", got)
		}
		if got := strings.Join(r.Notes(), "\n"); !strings.HasPrefix(got, "cannot determine the permissions of the controllers: ") {
			t.Errorf("the notes are %q", got)
		}
		c.SetBefore(nil)
		pass(time.Minute)
		if err := r.CheckStarted(); err != nil || len(r.Notes()) > 0 {
			t.Errorf("once it is back: %v, %q", err, r.Notes())
		}
		r.stop(t)
	})
}

func TestControllersThatAreStoppedBeforeTheyStartReturnNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		c.Before = refuse("", errAway)
		run(t, Options{Config: c.Config()}).stop(t)
	})
}

func TestControllersEndIfTheirKindsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New()
		c.Before = refuse("dry-run apply CustomResourceDefinition resourcegraphdefinitions.kro.run", forbidden)
		r := run(t, Options{Config: c.Config()})
		err := end(t, r.ended)
		if got := message(err); !strings.HasPrefix(got, "nothing was installed: install CustomResourceDefinition resourcegraphdefinitions.kro.run: ") {
			t.Errorf("the error is %q", got)
		}
		if keys := c.Keys(); len(keys) > 0 {
			t.Errorf("%v are installed", keys)
		}
	})
}

func TestRequestsForAnInstanceImpersonateTheAccountOfItsDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: prod}}")
		config, users := c.Config(), make(chan string, 1)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/namespaces/prod/configmaps/a") {
					users <- r.Header.Get("Impersonate-User")
				}
				return next.RoundTrip(r)
			})
		})
		r := run(t, Options{Config: config})
		defer r.stop(t)
		for name, want := range map[string]string{"": "", "team": "system:serviceaccount:prod:team"} {
			named := v1alpha1.ServiceAccount{Namespace: "prod", Name: name}
			a, err := r.account(named)
			if err != nil {
				t.Fatal(err)
			}
			if a.Named != named || a.User != want {
				t.Errorf("account %q is %+v", name, a)
			}
			if _, err := a.Cluster.Get(t.Context(), v1ConfigMap, "prod", "a"); err != nil {
				t.Error(err)
			}
			if user := <-users; user != want {
				t.Errorf("account %q reads as %q", name, user)
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestControllersWithAnInvalidConnectionAreNotCreated(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "absent"}}
	if _, err := NewControllers(Options{Config: config}); !strings.HasPrefix(message(err), "connect to the API server: ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Check(t.Context(), ManagerOptions{Providers: brokenProvider}); !strings.HasPrefix(message(err), "provider broken: things.yaml: ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := NewManager(ManagerOptions{Providers: brokenProvider}); !strings.HasPrefix(message(err), "provider broken: things.yaml: ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := InstalledDialects(t.Context(), config); !strings.HasPrefix(message(err), "connect to the API server: ") || errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
