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

// behaviours are clouds by how hard they are to drive.
var behaviours = map[string]cloud.Behaviour{
	"named by us":                      {},
	"named by us, slow and shown late": {CreateTime: 20 * time.Second, UpdateTime: 5 * time.Second, DeleteTime: 10 * time.Second, CreateLag: 3 * time.Second, DeleteLag: 5 * time.Second, ReuseAfter: time.Minute},
	"named by us, without tags":        {Tags: cloud.TagsNone, CreateTime: 7 * time.Second},
	"named by it, with tokens":         {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, Tags: cloud.TagsShown, CreateTime: 20 * time.Second},
	"named by it, found by tags":       {Naming: cloud.ProviderAssigned, CreateTime: 20 * time.Second, CreateLag: 5 * time.Second, DeleteLag: 3 * time.Second},
	"named by it, and nothing else":    {Naming: cloud.ProviderAssigned, Tags: cloud.TagsNone},
}

// TestConformance tries buckets on all of these clouds, and the other kinds, whose client
// is the same, on the two that are least alike. ESPALIER_TEST_FULL lets all lives be played.
func TestConformance(t *testing.T) {
	for name, b := range behaviours {
		t.Run("Bucket/"+name, func(t *testing.T) {
			s := suite(world(t, cloud.TypeBucket, b), "Bucket", cloud.TypeBucket, bucket, func(m *v1alpha1.Bucket) { m.Spec.ForProvider.Public = new(true) })
			s.Lives *= 2
			conformance.Run(t, s)
		})
	}
	for _, name := range []string{"named by us, slow and shown late", "named by it, with tokens"} {
		b := behaviours[name]
		t.Run("Network/"+name, func(t *testing.T) {
			conformance.Run(t, suite(world(t, cloud.TypeNetwork, b), "Network", cloud.TypeNetwork, network, func(m *v1alpha1.Network) { m.Spec.ForProvider.CIDR = new("10.0.0.0/8") }))
		})
		t.Run("Subnet/"+name, func(t *testing.T) {
			w := world(t, cloud.TypeSubnet, b)
			conformance.Run(t, suite(w, "Subnet", cloud.TypeSubnet, w.subnet, nil))
		})
		t.Run("Role/"+name, func(t *testing.T) {
			conformance.Run(t, suite(world(t, cloud.TypeRole, b), "Role", cloud.TypeRole, role, func(m *v1alpha1.Role) { m.Spec.ForProvider.Policies = []string{"read", "write"} }))
		})
		t.Run("Cluster/"+name, func(t *testing.T) {
			w := world(t, cloud.TypeCluster, b)
			conformance.Run(t, suite(w, "Cluster", cloud.TypeCluster, w.cluster, func(m *v1alpha1.Cluster) { m.Spec.ForProvider.Nodes = new(int64(5)) }))
		})
	}
}

// place is a cloud with what the kinds need in it.
type place struct {
	*cloud.Faulty
	clock       *conformance.Clock
	net         string
	sub, person string
	made        int
}

func world(t *testing.T, of cloud.Type, b cloud.Behaviour) *place {
	t.Helper()
	clock := conformance.NewClock()
	c := cloud.New(cloud.Options{Now: clock.Now})
	create := func(of cloud.Type, name string, p cloud.Properties) string {
		op, err := c.Call(cloud.Request{Verb: cloud.VerbCreate, Key: cloud.Key{Type: of, Scope: "main", ID: name}, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		return op.Resource.ID
	}
	w := &place{
		Faulty: cloud.NewFaulty(c), clock: clock, net: create(cloud.TypeNetwork, "net", cloud.Properties{CIDR: "10.0.0.0/8"}),
		person: create(cloud.TypeRole, "person", cloud.Properties{Trust: "cluster.sandbox"}),
	}
	w.sub = create(cloud.TypeSubnet, "sub", cloud.Properties{Network: w.net, CIDR: "10.255.255.0/24"})
	c.SetBehaviour(of, b)
	return w
}

func suite[M managed.Object](w *place, kind string, of cloud.Type, object func(string) M, change func(M)) conformance.Suite[M] {
	lives := 40
	if os.Getenv("ESPALIER_TEST_FULL") != "" {
		lives = 0
	}
	return conformance.Suite[M]{
		Kind: func() managed.Kind {
			kinds := sandbox.Provider(w.Faulty).Kinds
			return kinds[slices.IndexFunc(kinds, func(k managed.Kind) bool { return k.Port().GVK.Kind == kind })]
		},
		New: object, Change: change, Clock: w.clock, Lives: lives,
		Count: func(context.Context, M) (int, error) {
			n := 0
			for _, r := range w.Admin().Resources() {
				if r.Type == of && !slices.Contains([]string{w.net, w.sub, w.person}, r.ID) {
					n++
				}
			}
			return n, nil
		},
		Snapshot: func(context.Context) (string, error) {
			raw, err := json.Marshal(w.Admin().Resources())
			return string(raw), err
		},
		Troubles: []conformance.Trouble{
			{Name: "the cloud couldn't be reached", Begin: w.fault(cloud.Fault{Refuse: cloud.Unavailable, Times: 100})},
			{Name: "the cloud lost its answers", Begin: w.fault(cloud.Fault{Lose: cloud.Timeout, Times: 100})},
			{Name: "the cloud broke off its operations", Begin: w.fault(cloud.Fault{Break: true, Times: 100})},
			{Name: "the cloud was slow to take calls in", Begin: w.fault(cloud.Fault{Late: time.Second, Times: 100})},
		},
	}
}

func (w *place) fault(f cloud.Fault) func() func() {
	return func() func() {
		w.Inject(f)
		return w.ClearFaults
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name}
}

func bucket(name string) *v1alpha1.Bucket {
	return &v1alpha1.Bucket{ObjectMeta: named(name)}
}

func network(name string) *v1alpha1.Network {
	m := &v1alpha1.Network{ObjectMeta: named(name)}
	m.Spec.ForProvider.CIDR = new("10.0.0.0/16")
	return m
}

func role(name string) *v1alpha1.Role {
	m := &v1alpha1.Role{ObjectMeta: named(name)}
	m.Spec.ForProvider.Trust = new("cluster.sandbox")
	return m
}

func (w *place) subnet(name string) *v1alpha1.Subnet {
	w.made++
	m := &v1alpha1.Subnet{ObjectMeta: named(name)}
	m.Spec.ForProvider.NetworkID = &w.net
	m.Spec.ForProvider.CIDR = new(fmt.Sprintf("10.%d.%d.0/24", w.made/200, w.made%200))
	return m
}

func (w *place) cluster(name string) *v1alpha1.Cluster {
	m := &v1alpha1.Cluster{ObjectMeta: named(name)}
	m.Spec.ForProvider.SubnetIDs, m.Spec.ForProvider.RoleID = []string{w.sub}, &w.person
	m.Spec.ForProvider.Nodes = new(int64(3))
	return m
}
