package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
)

// behaviours are clouds with different guarantees.
var behaviours = map[string]cloud.Behaviour{
	"caller-assigned names":                                 {},
	"caller-assigned names, slow and eventually consistent": {CreateTime: 20 * time.Second, UpdateTime: 5 * time.Second, DeleteTime: 10 * time.Second, CreateLag: 3 * time.Second, DeleteLag: 5 * time.Second, ReuseAfter: time.Minute},
	"caller-assigned names without tags":                    {Tags: cloud.TagsNone, CreateTime: 7 * time.Second},
	"assigned identities with tokens":                       {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, Tags: cloud.TagsShown, CreateTime: 20 * time.Second},
	"assigned identities with findable tags":                {Naming: cloud.ProviderAssigned, CreateTime: 20 * time.Second, CreateLag: 5 * time.Second, DeleteLag: 3 * time.Second},
	"assigned identities only":                              {Naming: cloud.ProviderAssigned, Tags: cloud.TagsNone},
}

// TestConformance tests buckets with all behaviours, and the other kinds, which have the same
// client, with the two that differ most. With ESPALIER_TEST_FULL, all scenarios run.
func TestConformance(t *testing.T) {
	for name, b := range behaviours {
		t.Run("Bucket/"+name, func(t *testing.T) {
			s := suite(newTestCloud(t, cloud.TypeBucket, b), "Bucket", cloud.TypeBucket, newBucket, func(m *v1alpha1.Bucket) { m.Spec.ForProvider.Public = new(true) })
			s.MaxScenarios *= 2
			conformance.Run(t, s)
		})
	}
	for _, name := range []string{"caller-assigned names, slow and eventually consistent", "assigned identities with tokens"} {
		b := behaviours[name]
		t.Run("Network/"+name, func(t *testing.T) {
			conformance.Run(t, suite(newTestCloud(t, cloud.TypeNetwork, b), "Network", cloud.TypeNetwork, newNetwork, func(m *v1alpha1.Network) { m.Spec.ForProvider.CIDR = new("10.0.0.0/8") }))
		})
		t.Run("Subnet/"+name, func(t *testing.T) {
			c := newTestCloud(t, cloud.TypeSubnet, b)
			conformance.Run(t, suite(c, "Subnet", cloud.TypeSubnet, c.newSubnet, nil))
		})
		t.Run("Role/"+name, func(t *testing.T) {
			conformance.Run(t, suite(newTestCloud(t, cloud.TypeRole, b), "Role", cloud.TypeRole, newRole, func(m *v1alpha1.Role) { m.Spec.ForProvider.Policies = []string{"read", "write"} }))
		})
		t.Run("Cluster/"+name, func(t *testing.T) {
			c := newTestCloud(t, cloud.TypeCluster, b)
			conformance.Run(t, suite(c, "Cluster", cloud.TypeCluster, c.newCluster, func(m *v1alpha1.Cluster) { m.Spec.ForProvider.Nodes = new(int64(5)) }))
		})
	}
}

// testCloud is a cloud with a network, a subnet and a role for other resources to refer to.
type testCloud struct {
	*cloud.Faulty
	clock                 *conformance.Clock
	network, subnet, role string
	subnets               int
}

func newTestCloud(t *testing.T, of cloud.Type, b cloud.Behaviour) *testCloud {
	t.Helper()
	clock := conformance.NewClock()
	inner := cloud.New(cloud.Options{Now: clock.Now})
	create := func(of cloud.Type, name string, p cloud.Properties) string {
		op, err := inner.Call(cloud.Request{Verb: cloud.VerbCreate, Key: cloud.Key{Type: of, Scope: "main", ID: name}, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		return op.Resource.ID
	}
	c := &testCloud{
		Faulty: cloud.NewFaulty(inner), clock: clock, network: create(cloud.TypeNetwork, "net", cloud.Properties{CIDR: "10.0.0.0/8"}),
		role: create(cloud.TypeRole, "person", cloud.Properties{Trust: "cluster.sandbox"}),
	}
	c.subnet = create(cloud.TypeSubnet, "sub", cloud.Properties{Network: c.network, CIDR: "10.255.255.0/24"})
	c.SetBehaviour(of, b)
	return c
}

func suite[M managed.Object](c *testCloud, kind string, of cloud.Type, object func(string) M, change func(M)) conformance.Suite[M] {
	scenarios := 40
	if os.Getenv("ESPALIER_TEST_FULL") != "" {
		scenarios = 0
	}
	return conformance.Suite[M]{
		Kind: func() managed.Kind {
			kinds := sandbox.Provider(c.Faulty).Kinds
			return kinds[slices.IndexFunc(kinds, func(k managed.Kind) bool { return k.Port().GVK.Kind == kind })]
		},
		New: object, Change: change, Clock: c.clock, MaxScenarios: scenarios,
		Count: func(context.Context, M) (int, error) {
			n := 0
			for _, r := range c.Admin().Resources() {
				if r.Type == of && !slices.Contains([]string{c.network, c.subnet, c.role}, r.ID) {
					n++
				}
			}
			return n, nil
		},
		Snapshot: func(context.Context) (string, error) {
			raw, err := json.Marshal(c.Admin().Resources())
			return string(raw), err
		},
		Faults: []conformance.Fault{
			{Name: "the cloud was unavailable", Inject: c.inject(cloud.Fault{Refuse: cloud.Unavailable, Times: 100})},
			{Name: "the cloud lost its answers", Inject: c.inject(cloud.Fault{Lose: cloud.Timeout, Times: 100})},
			{Name: "operations of the cloud failed", Inject: c.inject(cloud.Fault{Break: true, Times: 100})},
			{Name: "calls arrived late at the cloud", Inject: c.inject(cloud.Fault{Late: time.Second, Times: 100})},
		},
	}
}

func (c *testCloud) inject(f cloud.Fault) func() func() {
	return func() func() {
		c.Inject(f)
		return c.ClearFaults
	}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name}
}

func newBucket(name string) *v1alpha1.Bucket {
	return &v1alpha1.Bucket{ObjectMeta: meta(name)}
}

func newNetwork(name string) *v1alpha1.Network {
	m := &v1alpha1.Network{ObjectMeta: meta(name)}
	m.Spec.ForProvider.CIDR = new("10.0.0.0/16")
	return m
}

func newRole(name string) *v1alpha1.Role {
	m := &v1alpha1.Role{ObjectMeta: meta(name)}
	m.Spec.ForProvider.Trust = new("cluster.sandbox")
	return m
}

func (c *testCloud) newSubnet(name string) *v1alpha1.Subnet {
	c.subnets++
	m := &v1alpha1.Subnet{ObjectMeta: meta(name)}
	m.Spec.ForProvider.NetworkID = &c.network
	m.Spec.ForProvider.CIDR = new(fmt.Sprintf("10.%d.%d.0/24", c.subnets/200, c.subnets%200))
	return m
}

func (c *testCloud) newCluster(name string) *v1alpha1.Cluster {
	m := &v1alpha1.Cluster{ObjectMeta: meta(name)}
	m.Spec.ForProvider.SubnetIDs, m.Spec.ForProvider.RoleID = []string{c.subnet}, &c.role
	m.Spec.ForProvider.Nodes = new(int64(3))
	return m
}
