package server

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var errAway = errors.New("connection refused")

// forbidden is the API server's refusal of a request.
var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "thing", errors.New("no role permits it"))

// refuse returns a Before of fakekube that answers the requests with a prefix with an error.
func refuse(prefix string, err error) func(string) error {
	return func(request string) error {
		if strings.HasPrefix(request, prefix) {
			return err
		}
		return nil
	}
}

func optionsFor(c *fakekube.Cluster) ManagerOptions {
	return ManagerOptions{Options: manager.Options{Name: "espalier", Version: "test", Config: c.Config(), Log: logr.Discard(), HealthAddress: "0", MetricsAddress: "0"}, Settings: Settings{Workers: 1}}
}

const (
	// foreignGraphs is the kind of definitions as kro installs it.
	foreignGraphs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: resourcegraphdefinitions.kro.run}
spec: {group: kro.run, names: {kind: ResourceGraphDefinition, plural: resourcegraphdefinitions}, scope: Cluster, versions: [{name: v1alpha1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
`
	foreignWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: crossplane-no-usages}
webhooks: [{name: nousages.protection.crossplane.io}]
`
)

func TestCheckReturnsWhatWouldBeInstalled(t *testing.T) {
	cases := map[string]struct {
		reason  string
		objects string
		before  func(string) error
		change  func(*ManagerOptions)
		// creates are some of the kinds that would be created, keeps some that would not.
		creates, keeps []string
		refused, fails string
		notes          []string
	}{
		"the cluster is empty": {
			reason:  "all dialects are served in it",
			creates: []string{"holds.espalier.dev", "resourcegraphdefinitions.kro.run", "compositeresourcedefinitions.apiextensions.crossplane.io"},
			keeps:   []string{"usages.protection.crossplane.io"},
		},
		"usages are wanted": {
			reason: "their kinds are installed as well", change: func(o *ManagerOptions) { o.Usages = true },
			creates: []string{"usages.protection.crossplane.io"},
		},
		"another program has installed a dialect": {
			reason: "it may be serving the dialect", objects: foreignGraphs,
			creates: []string{"compositeresourcedefinitions.apiextensions.crossplane.io"}, keeps: []string{"resourcegraphdefinitions.kro.run"},
			notes: []string{"the graph dialect is not served: CustomResourceDefinition resourcegraphdefinitions.kro.run was installed by another program"},
		},
		"the API server refuses a kind": {
			reason: "the check finds it before anything is installed", before: refuse("dry-run apply CustomResourceDefinition holds.espalier.dev", forbidden),
			creates: []string{"holds.espalier.dev"}, refused: "install CustomResourceDefinition holds.espalier.dev: ",
		},
		"Crossplane has left its webhook": {
			reason: "it refuses deletions", objects: foreignWebhook,
			notes: []string{webhook.ForeignNote},
		},
		"Crossplane's webhook is to be replaced": {
			reason: "the check says what would be deleted", objects: foreignWebhook, change: func(o *ManagerOptions) { o.ReplaceCrossplaneWebhook = true },
			notes: []string{"ValidatingWebhookConfiguration crossplane-no-usages was installed by Crossplane, and would be deleted"},
		},
		"webhooks cannot be read": {
			reason: "the rest of the findings is returned", before: refuse("get ValidatingWebhookConfiguration", forbidden),
			creates: []string{"holds.espalier.dev"}, notes: []string{"read ValidatingWebhookConfiguration crossplane-no-usages: "},
		},
		"the API server is away": {
			reason: "nothing is known", before: refuse("", errAway), fails: "list CustomResourceDefinitions: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakekube.New(tc.objects)
			c.Before = tc.before
			o := optionsFor(c)
			if tc.change != nil {
				tc.change(&o)
			}
			stored := c.Keys()
			found, err := Check(t.Context(), o)
			if got := message(err); !strings.HasPrefix(got, tc.fails) || (got == "") != (tc.fails == "") {
				t.Errorf("%s: the error is %q", tc.reason, got)
			}
			if got := message(found.Refused); !strings.HasPrefix(got, tc.refused) || (got == "") != (tc.refused == "") {
				t.Errorf("%s: refused is %q", tc.reason, got)
			}
			for _, name := range tc.creates {
				if !slices.Contains(created(found.Installs), name) {
					t.Errorf("%s: %s is not created", tc.reason, name)
				}
			}
			for _, name := range tc.keeps {
				if slices.Contains(created(found.Installs), name) {
					t.Errorf("%s: %s is created", tc.reason, name)
				}
			}
			if !slices.EqualFunc(found.Notes, tc.notes, strings.HasPrefix) {
				t.Errorf("%s: the notes are %q", tc.reason, found.Notes)
			}
			if diff := cmp.Diff(stored, c.Keys()); diff != "" {
				t.Errorf("a check changes the cluster (-before +after):\n%s", diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// created are the names of what an installation would create.
func created(steps []install.Step) (out []string) {
	for _, s := range steps {
		if s.Action == install.Create {
			out = append(out, s.Wanted.GetName())
		}
	}
	return out
}

func TestInstalledDialectsAreThoseWithDefinitions(t *testing.T) {
	c := fakekube.New(foreignGraphs)
	if got, err := InstalledDialects(t.Context(), c.Config()); err != nil || !slices.Equal(got, []Dialect{Graph}) {
		t.Errorf("%v, %v", got, err)
	}
	c.Before = refuse("", forbidden)
	if got, err := InstalledDialects(t.Context(), c.Config()); got != nil || !strings.HasPrefix(message(err), "read CustomResourceDefinition resourcegraphdefinitions.kro.run: ") {
		t.Errorf("a dialect that cannot be read counts as absent: %v, %v", got, err)
	}
}
