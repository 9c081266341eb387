package plan_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// catalog has types by name; those that end in Broken cannot be served.
type catalog []string

func (c catalog) Match(pattern string) ([]string, error) {
	if strings.HasPrefix(pattern, ":") {
		return nil, errors.New("a name does not begin with a colon")
	}
	var out []string
	for _, name := range c {
		if ok, _ := path.Match(pattern, name); ok {
			out = append(out, name)
		}
	}
	return out, nil
}

func (c catalog) TypeOf(kind schema.GroupKind) (string, bool, bool) {
	name, clusterScoped := strings.CutPrefix(kind.Kind, "Cluster")
	service, ok := strings.CutSuffix(kind.Group, ".example.org")
	name = service + "::" + name
	return name, clusterScoped, ok && slices.Contains(c, name)
}

func (c catalog) Kind(key plan.Key) (plan.Kind, error) {
	if strings.HasSuffix(key.Type, "Broken") {
		return plan.Kind{}, errors.New("its schema is recursive")
	}
	return kindOf(key), nil
}

func kindOf(key plan.Key) plan.Kind {
	service, name, _ := strings.Cut(key.Type, "::")
	if key.ClusterScoped {
		name = "Cluster" + name
	}
	gvk := schema.GroupVersionKind{Group: service + ".example.org", Version: "v1", Kind: name}
	return plan.Kind{GVK: gvk, CRD: strings.ToLower(name) + "s." + gvk.Group}
}

var types = catalog{"net::Broken", "net::Subnet", "net::Vpc", "store::Bucket"}

func activation(name string, spec resource.ActivationSpec) plan.Activation {
	return plan.Activation{Name: name, Spec: spec}
}

func patterns(all ...resource.TypePattern) resource.ActivationSpec {
	return resource.ActivationSpec{Types: all}
}

func onDemand(all ...resource.TypePattern) resource.ActivationSpec {
	return resource.ActivationSpec{OnDemand: all}
}

// crd is an installed CustomResourceDefinition of ours, which is served and up to date.
func crd(typeName, activation string, change ...func(*plan.CRD)) plan.CRD {
	key := plan.Key{Type: typeName}
	kind := kindOf(key)
	c := plan.CRD{Name: kind.CRD, Key: key, Kind: kind.GVK, Activation: activation, Ours: true, Digest: digest(key, activation), Established: true}
	for _, f := range change {
		f(&c)
	}
	return c
}

func digest(key plan.Key, activation string) string { return fmt.Sprint(key, activation) }

func foreign(c *plan.CRD)  { c.Ours = false }
func deleting(c *plan.CRD) { c.Deleting = true }
func outdated(c *plan.CRD) { c.Digest = "before" }
func refused(c *plan.CRD)  { c.Established, c.Message = false, "NamesAccepted: the plural is taken" }

func TestPlans(t *testing.T) {
	bucket := []schema.GroupKind{{Group: "store.example.org", Kind: "Bucket"}}
	all := append([]schema.GroupKind{{Group: "net.example.org", Kind: "Vpc"}, {Group: "net.example.org", Kind: "Subnet"}}, bucket...)
	cases := map[string]struct {
		activations []plan.Activation
		demand      plan.Demand
		crds        []plan.CRD
		users       map[plan.Key]plan.Users
		failures    map[plan.Key]string
		starting    map[plan.Key]bool
		forbidden   map[plan.Key]string
		// steps, served and statuses are as text; the latter of the condition Ready and the counts.
		steps, served, statuses []string
		release                 []string
	}{
		"A type is activated": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))},
			steps:       []string{"Install vpcs.net.example.org for a"},
			statuses:    []string{"a: False Installing: net::Vpc: waiting for the API server to serve the kind (1/0/0)"},
		},
		"Its kind is served": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a")},
			served: []string{"net::Vpc"}, statuses: []string{"a: True Active: 1 kind is served (1/1/0)"},
		},
		"The objects of its kind are not known yet": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a")}, starting: map[plan.Key]bool{{Type: "net::Vpc"}: true},
			served: []string{"net::Vpc"}, statuses: []string{"a: False Installing: net::Vpc: its objects are being read (1/0/0)"},
		},
		"The provider may not read the objects of its kind": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a")}, forbidden: map[plan.Key]string{{Type: "net::Vpc"}: "it may not list them"},
			served: []string{"net::Vpc"}, statuses: []string{"a: False Forbidden: net::Vpc: it may not list them (1/0/0)"},
		},
		"A pattern matches several types, and one cannot be served": {
			activations: []plan.Activation{activation("a", patterns("net::*"))},
			steps:       []string{"Install subnets.net.example.org for a", "Install vpcs.net.example.org for a"},
			statuses:    []string{"a: False UnsupportedType: net::Broken: its schema is recursive (2/0/0)"},
		},
		"Patterns match nothing": {
			activations: []plan.Activation{activation("a", patterns("net::Nat", "db::*", ":x"))},
			statuses:    []string{"a: False UnknownType: :x: a name does not begin with a colon (and 2 more) (0/0/0)"},
		},
		"Both scopes": {
			activations: []plan.Activation{activation("a", resource.ActivationSpec{Types: []resource.TypePattern{"net::Vpc"}, Scopes: []resource.ActivationScope{"Cluster", "Namespaced"}})},
			steps:       []string{"Install vpcs.net.example.org for a", "Install clustervpcs.net.example.org for a"},
			statuses:    []string{"a: False Installing: net::Vpc: waiting for the API server to serve the kind (and 1 more) (2/0/0)"},
		},
		"Two activations activate one kind, and it stays with the one that it belongs to": {
			activations: []plan.Activation{activation("b", patterns("net::Vpc")), activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "b")},
			served: []string{"net::Vpc"}, statuses: []string{"a: True Active: 1 kind is served (1/1/0)", "b: True Active: 1 kind is served (1/1/0)"},
		},
		"The activation that a kind belongs to does not activate it any more": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc")), activation("b", patterns())}, crds: []plan.CRD{crd("net::Vpc", "b")},
			steps: []string{"Update vpcs.net.example.org for a"}, served: []string{"net::Vpc"},
			statuses: []string{"a: True Active: 1 kind is served (1/1/0)", "b: True Active: 0 kinds are served (0/0/0)"},
		},
		"The schema is another": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a", outdated)},
			steps: []string{"Update vpcs.net.example.org for a"}, served: []string{"net::Vpc"}, statuses: []string{"a: True Active: 1 kind is served (1/1/0)"},
		},
		"Another program has installed the kind": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "", foreign)},
			statuses: []string{"a: False Conflict: net::Vpc: CustomResourceDefinition vpcs.net.example.org exists, and another program has installed it; delete it if nothing uses it (1/0/0)"},
		},
		"The API server does not accept the names": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a", refused)},
			statuses: []string{"a: False Installing: net::Vpc: NamesAccepted: the plural is taken (1/0/0)"},
		},
		"Somebody deletes the CustomResourceDefinition": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a", deleting)}, served: []string{"net::Vpc"},
			statuses: []string{"a: False Installing: net::Vpc: its CustomResourceDefinition is being deleted, and is installed again after that (1/0/0)"},
		},
		"A write has failed": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, failures: map[plan.Key]string{{Type: "net::Vpc"}: "forbidden"},
			steps:    []string{"Install vpcs.net.example.org for a"},
			statuses: []string{"a: False InstallationFailed: net::Vpc: forbidden (1/0/0)"},
		},
		"A kind is deactivated, and no object exists": {
			activations: []plan.Activation{activation("a", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a"), crd("net::Subnet", "a")},
			steps: []string{"Remove subnets.net.example.org for a"}, served: []string{"net::Subnet", "net::Vpc"},
			statuses: []string{"a: True Active: 1 kind is served; no longer activated: net::Subnet: its CustomResourceDefinition is being deleted (1/1/1)"},
		},
		"A kind is deactivated, and objects exist": {
			activations: []plan.Activation{activation("a", patterns())}, crds: []plan.CRD{crd("net::Vpc", "a")}, users: map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Objects: 12, Bindings: []string{"one"}}},
			served:   []string{"net::Vpc"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: net::Vpc: 12 objects of kind Vpc exist: delete or orphan them first (0/0/1)"},
		},
		"A kind is deactivated, and Bindings are left": {
			activations: []plan.Activation{activation("a", patterns())}, crds: []plan.CRD{crd("net::Vpc", "a")}, users: map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Bindings: []string{"i-1"}}},
			served:   []string{"net::Vpc"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: net::Vpc: 1 Binding of a deleted object is left: it reserves a name, or the outcome of an operation is unknown; see kubectl describe bindings.espalier.dev i-1 (0/0/1)"},
		},
		"A kind is deactivated, and many Bindings are left": {
			activations: []plan.Activation{activation("a", patterns())}, crds: []plan.CRD{crd("net::Vpc", "a")}, users: map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Bindings: []string{"i-4", "i-3", "i-2", "i-1"}}},
			served:   []string{"net::Vpc"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: net::Vpc: 4 Bindings of deleted objects are left: they reserve names, or the outcome of an operation is unknown; see kubectl describe bindings.espalier.dev i-1 i-2 i-3 (0/0/1)"},
		},
		"A kind is deactivated, and its objects cannot be read": {
			activations: []plan.Activation{activation("a", patterns())}, crds: []plan.CRD{crd("net::Vpc", "a")}, users: map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Unreadable: "forbidden"}},
			served:   []string{"net::Vpc"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: net::Vpc: cannot determine whether it is in use: forbidden (0/0/1)"},
		},
		"An activation is deleted, and its kinds are left": {
			activations: []plan.Activation{{Name: "a", Deleting: true, Spec: patterns("net::Vpc")}}, crds: []plan.CRD{crd("net::Vpc", "a")},
			users:  map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Objects: 1}},
			served: []string{"net::Vpc"}, statuses: []string{"a: False Deleting: no longer activated: net::Vpc: 1 object of kind Vpc exists: delete or orphan it first (0/0/1)"},
		},
		"An activation is deleted, and no kind is left": {
			activations: []plan.Activation{{Name: "a", Deleting: true, Spec: patterns("net::Vpc")}}, crds: []plan.CRD{crd("net::Vpc", "", foreign)},
			release: []string{"a"}, statuses: []string{"a: False Deleting: its kinds are removed, or belong to another activation now (0/0/0)"},
		},
		"An activation is deleted, and another one takes over its kind": {
			activations: []plan.Activation{{Name: "a", Deleting: true, Spec: patterns("net::Vpc")}, activation("b", patterns("net::Vpc"))}, crds: []plan.CRD{crd("net::Vpc", "a")},
			steps: []string{"Update vpcs.net.example.org for b"}, served: []string{"net::Vpc"},
			statuses: []string{"a: False Deleting: its kinds are removed, or belong to another activation now (0/0/0)", "b: True Active: 1 kind is served (1/1/0)"},
		},
		"All activations are gone, with their finalizers": {
			crds: []plan.CRD{crd("net::Vpc", "a"), crd("net::Subnet", "a")}, users: map[plan.Key]plan.Users{{Type: "net::Vpc"}: {Objects: 1}},
			steps: []string{"Remove subnets.net.example.org for a"}, served: []string{"net::Subnet", "net::Vpc"},
		},
		"A definition names a kind that it may activate": {
			activations: []plan.Activation{activation("a", onDemand("store::*"))}, demand: plan.Demand{Kinds: all},
			steps:    []string{"Install buckets.store.example.org for a"},
			statuses: []string{"a: False Installing: store::Bucket: waiting for the API server to serve the kind (1/0/0)"},
		},
		"A definition names a kind of a scope that it may not activate": {
			activations: []plan.Activation{activation("a", onDemand("*"))}, demand: plan.Demand{Kinds: []schema.GroupKind{{Group: "net.example.org", Kind: "ClusterVpc"}}},
			statuses: []string{"a: True Active: 0 kinds are served (0/0/0)"},
		},
		"No definition names it any more": {
			activations: []plan.Activation{activation("a", onDemand("store::*"))}, crds: []plan.CRD{crd("store::Bucket", "a")},
			steps: []string{"Remove buckets.store.example.org for a"}, served: []string{"store::Bucket"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: store::Bucket: its CustomResourceDefinition is being deleted (0/0/1)"},
		},
		"The definitions cannot be read": {
			activations: []plan.Activation{activation("a", onDemand("store::*"))}, crds: []plan.CRD{crd("store::Bucket", "a")}, demand: plan.Demand{Unreadable: "forbidden"},
			served:   []string{"store::Bucket"},
			statuses: []string{"a: Unknown DefinitionsUnreadable: cannot determine which kinds definitions name: forbidden (0/0/1)"},
		},
		"The definitions are being read": {
			activations: []plan.Activation{activation("a", onDemand("store::*"))}, crds: []plan.CRD{crd("store::Bucket", "a")}, demand: plan.Demand{Syncing: true},
			served:   []string{"store::Bucket"},
			statuses: []string{"a: True Active: 0 kinds are served; no longer activated: store::Bucket: it is kept: cannot determine whether a definition names it (0/0/1)"},
		},
		"Patterns match more kinds than the limit": {
			activations: []plan.Activation{activation("a", resource.ActivationSpec{Types: []resource.TypePattern{"*"}, MaxKinds: 2})}, crds: []plan.CRD{crd("net::Vpc", "a")},
			served:   []string{"net::Vpc"},
			statuses: []string{"a: False TooManyKinds: types matches 4 kinds, and maxKinds is 2: no further kind is installed. Use narrower patterns, or increase maxKinds (1/1/0)"},
		},
		"Definitions name more kinds than the limit": {
			activations: []plan.Activation{activation("a", resource.ActivationSpec{OnDemand: []resource.TypePattern{"*"}, MaxKinds: 2})}, crds: []plan.CRD{crd("store::Bucket", "a")}, demand: plan.Demand{Kinds: all},
			steps: []string{"Install subnets.net.example.org for a"}, served: []string{"store::Bucket"},
			statuses: []string{"a: False TooManyKinds: net::Vpc: a definition names it, and 2 kinds exist already, which is spec.maxKinds: increase it, or narrow spec.types (2/1/0)"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wanted := plan.Want(tc.activations, tc.demand, types, ours(tc.crds))
			facts := plan.Facts{CRDs: map[string]plan.CRD{}, Users: tc.users, Digest: digest, Failures: tc.failures, Starting: tc.starting, Forbidden: tc.forbidden}
			for _, c := range tc.crds {
				facts.CRDs[c.Name] = c
			}
			p := plan.Compute(wanted, facts)
			var steps, served, statuses []string
			for _, s := range p.Steps {
				steps = append(steps, fmt.Sprintf("%s %s for %s", s.Action, s.CRD, s.Activation))
			}
			for _, key := range p.Serve {
				served = append(served, key.Type)
			}
			for _, a := range wanted.Activations {
				s := p.Statuses[a.Name]
				statuses = append(statuses, fmt.Sprintf("%s: %s %s: %s (%d/%d/%d)", a.Name, s.Ready, s.Reason, s.Message, s.Kinds.Activated, s.Kinds.Served, s.Kinds.Deactivated))
			}
			for what, both := range map[string][2][]string{
				"steps": {tc.steps, steps}, "served": {tc.served, served}, "statuses": {tc.statuses, statuses}, "released": {tc.release, p.Release},
			} {
				if diff := cmp.Diff(both[0], both[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			if diff := cmp.Diff(p, plan.Compute(wanted, facts)); diff != "" {
				t.Errorf("a second plan of the same differs:\n%s", diff)
			}
		})
	}
}

func ours(crds []plan.CRD) []plan.CRD {
	return slices.DeleteFunc(slices.Clone(crds), func(c plan.CRD) bool { return !c.Ours })
}

func TestTheStatusListsALimitedNumberOfTypes(t *testing.T) {
	var many catalog
	var installed []plan.CRD
	for i := range 300 {
		name := fmt.Sprintf("net::T%03d", i)
		many = append(many, name)
		if i != 222 {
			installed = append(installed, crd(name, "a"))
		}
	}
	facts := plan.Facts{CRDs: map[string]plan.CRD{}, Digest: digest}
	for _, c := range installed {
		facts.CRDs[c.Name] = c
	}
	s := plan.Compute(plan.Want([]plan.Activation{activation("a", patterns("*"))}, plan.Demand{}, many, installed), facts).Statuses["a"]
	if len(s.Types) != 100 || s.Types[0].Type != "net::T222" || s.Kinds.Served != 299 || s.Kinds.Activated != 300 {
		t.Errorf("%d types, the first is %v, of %+v", len(s.Types), s.Types[0], s.Kinds)
	}
}
