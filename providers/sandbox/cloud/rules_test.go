package cloud_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

func TestACreateIsRefused(t *testing.T) {
	cases := map[string]struct {
		ask   cloud.CreateRequest
		code  cloud.Code
		field string
	}{
		"without properties":               {cloud.CreateRequest{}, cloud.InvalidParameter, "properties"},
		"for properties by pointer":        {cloud.CreateRequest{Properties: &cloud.Bucket{}}, cloud.InvalidParameter, "properties"},
		"for no pointer even":              {cloud.CreateRequest{Properties: (*cloud.Bucket)(nil)}, cloud.InvalidParameter, "properties"},
		"without a scope":                  {cloud.CreateRequest{Scope: "-", Properties: cloud.Bucket{}}, cloud.InvalidParameter, "scope"},
		"without a name":                   {cloud.CreateRequest{Name: "-", Properties: cloud.Bucket{}}, cloud.InvalidParameter, "name"},
		"for a tag without a key":          {cloud.CreateRequest{Tags: map[string]string{"": "x"}, Properties: cloud.Bucket{}}, cloud.InvalidParameter, "tags"},
		"for a tag that isn't text":        {cloud.CreateRequest{Tags: map[string]string{"x": "\xff"}, Properties: cloud.Bucket{}}, cloud.InvalidParameter, "tags"},
		"for a token that is too long":     {cloud.CreateRequest{Token: strings.Repeat("x", 65), Properties: cloud.Bucket{}}, cloud.InvalidParameter, "token"},
		"for what is no range":             {cloud.CreateRequest{Properties: cloud.Network{CIDR: "ten"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a range with a host":          {cloud.CreateRequest{Properties: cloud.Network{CIDR: "10.0.0.1/16"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a range outside":              {cloud.CreateRequest{Properties: cloud.Subnet{Network: "net", CIDR: "10.1.0.0/24"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a range that is wider":        {cloud.CreateRequest{Properties: cloud.Subnet{Network: "net", CIDR: "10.0.0.0/8"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a range of another kind":      {cloud.CreateRequest{Properties: cloud.Subnet{Network: "net", CIDR: "fd00::/64"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a range that overlaps":        {cloud.CreateRequest{Properties: cloud.Subnet{Network: "net", CIDR: "10.0.0.128/25"}}, cloud.InvalidParameter, "properties.cidr"},
		"for a network that isn't there":   {cloud.CreateRequest{Properties: cloud.Subnet{Network: "no", CIDR: "10.0.9.0/24"}}, cloud.NotFound, "properties.network"},
		"for no network":                   {cloud.CreateRequest{Properties: cloud.Subnet{CIDR: "10.0.9.0/24"}}, cloud.InvalidParameter, "properties.network"},
		"for a network of another scope":   {cloud.CreateRequest{Scope: "else", Properties: cloud.Subnet{Network: "net", CIDR: "10.0.9.0/24"}}, cloud.NotFound, "properties.network"},
		"for trusting nobody":              {cloud.CreateRequest{Properties: cloud.Role{}}, cloud.InvalidParameter, "properties.trust"},
		"for a policy that comes twice":    {cloud.CreateRequest{Properties: cloud.Role{Trust: "x", Policies: []string{"a", "a"}}}, cloud.InvalidParameter, "properties.policies"},
		"for no subnets":                   {cloud.CreateRequest{Properties: cloud.Cluster{Role: "role"}}, cloud.InvalidParameter, "properties.subnets"},
		"for a subnet that isn't there":    {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"a", "no"}, Role: "role"}}, cloud.NotFound, "properties.subnets"},
		"for a role that isn't there":      {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"a"}, Role: "no"}}, cloud.NotFound, "properties.role"},
		"for too many nodes":               {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"a"}, Role: "role", Nodes: 1001}}, cloud.InvalidParameter, "properties.nodes"},
		"for subnets of several networks":  {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"a", "far"}, Role: "role"}}, cloud.InvalidParameter, "properties.subnets"},
		"for a subnet that isn't made yet": {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"new"}, Role: "role"}}, cloud.InvalidState, "properties.subnets"},
		"for a subnet that is going":       {cloud.CreateRequest{Properties: cloud.Cluster{Subnets: []string{"going"}, Role: "role"}}, cloud.InvalidState, "properties.subnets"},
	}
	s := open(t, nil)
	s.estate()
	s.create("far-net", cloud.Network{CIDR: "10.0.0.0/16"})
	s.create("far", cloud.Subnet{Network: "far-net", CIDR: "10.0.0.0/24"})
	going := s.create("going", cloud.Subnet{Network: "net", CIDR: "10.0.3.0/24"})
	s.must(s.SetBehaviour(cloud.TypeSubnet, cloud.Behaviour{CreateTime: time.Hour, DeleteTime: time.Hour}))
	s.create("new", cloud.Subnet{Network: "net", CIDR: "10.0.2.0/24"})
	_, err := s.Delete(cloud.DeleteRequest{Key: going})
	s.must(err)
	before := s.truth()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.ask.Scope == "" {
				tc.ask.Scope = scope
			}
			if tc.ask.Name == "" {
				tc.ask.Name = "x"
			}
			_, err := s.Create(tc.ask)
			if e := s.refusal(err, tc.code); e.Field != tc.field {
				t.Errorf("field %q of %v", e.Field, e)
			}
			if diff := cmp.Diff(before, s.truth()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnUpdateIsRefused(t *testing.T) {
	key := func(t cloud.Type, id string) cloud.Key { return cloud.Key{Type: t, Scope: scope, ID: id} }
	cases := map[string]struct {
		ask   cloud.UpdateRequest
		code  cloud.Code
		field string
	}{
		"for what isn't there":               {cloud.UpdateRequest{Key: key(cloud.TypeBucket, "no")}, cloud.NotFound, ""},
		"for an ID that reaches into scopes": {cloud.UpdateRequest{Key: cloud.Key{Type: cloud.TypeRole, Scope: "eu-north-1", ID: "dev/role"}}, cloud.NotFound, ""},
		"for properties of another type":     {cloud.UpdateRequest{Key: key(cloud.TypeRole, "role"), Properties: cloud.Bucket{}}, cloud.InvalidParameter, "properties"},
		"for another network":                {cloud.UpdateRequest{Key: key(cloud.TypeSubnet, "a"), Properties: cloud.Subnet{Network: "x", CIDR: "10.0.0.0/24"}}, cloud.InvalidParameter, "properties.network"},
		"for another range of a subnet":      {cloud.UpdateRequest{Key: key(cloud.TypeSubnet, "a"), Properties: cloud.Subnet{Network: "net", CIDR: "10.0.7.0/24"}}, cloud.InvalidParameter, "properties.cidr"},
		"for another role":                   {cloud.UpdateRequest{Key: key(cloud.TypeCluster, "prod"), Properties: cloud.Cluster{Subnets: []string{"a"}, Role: "x"}}, cloud.InvalidParameter, "properties.role"},
		"for properties that are wrong":      {cloud.UpdateRequest{Key: key(cloud.TypeRole, "role"), Properties: cloud.Role{}}, cloud.InvalidParameter, "properties.trust"},
		"for a range without the subnets":    {cloud.UpdateRequest{Key: key(cloud.TypeNetwork, "net"), Properties: cloud.Network{CIDR: "10.0.0.0/24"}}, cloud.DependencyViolation, ""},
		"for tags that are wrong":            {cloud.UpdateRequest{Key: key(cloud.TypeRole, "role"), Tags: map[string]string{"": ""}}, cloud.InvalidParameter, "tags"},
	}
	s := open(t, nil)
	s.estate()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := s.truth()
			_, err := s.Update(tc.ask)
			if e := s.refusal(err, tc.code); e.Field != tc.field {
				t.Errorf("field %q of %v", e.Field, e)
			}
			if diff := cmp.Diff(before, s.truth()); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, err := s.Update(cloud.UpdateRequest{Key: key(cloud.TypeNetwork, "net"), Properties: cloud.Network{CIDR: "10.0.0.0/23"}})
	s.must(err)
}

func TestWhatIsNeededStays(t *testing.T) {
	s := open(t, nil)
	network, a, b, role, cluster := s.estate()
	refused := func(k cloud.Key, by ...cloud.Key) {
		t.Helper()
		_, err := s.Delete(cloud.DeleteRequest{Key: k})
		e := s.refusal(err, cloud.DependencyViolation)
		if diff := cmp.Diff(by, e.Dependants); diff != "" {
			t.Error(diff)
		}
		for _, k := range by {
			if !strings.Contains(e.Message, k.String()) {
				t.Errorf("%q doesn't name %s", e.Message, k)
			}
		}
		s.refused(s.Admin().Delete(k), cloud.DependencyViolation)
	}
	refused(network, a, b)
	refused(a, cluster)
	refused(role, cluster)

	s.must(s.SetBehaviour(cloud.TypeCluster, cloud.Behaviour{UpdateTime: time.Hour, DeleteTime: time.Hour}))
	_, err := s.Update(cloud.UpdateRequest{Key: cluster, Properties: cloud.Cluster{Subnets: []string{b.ID}, Role: role.ID}})
	s.must(err)
	refused(a, cluster) // still in use,
	refused(b, cluster) // and about to be
	s.wait(time.Hour)
	refused(b, cluster)
	_, err = s.Delete(cloud.DeleteRequest{Key: cluster})
	s.must(err)
	refused(role, cluster) // until it is really gone
	s.wait(time.Hour)
	for _, k := range []cloud.Key{role, a, b, network} {
		_, err := s.Delete(cloud.DeleteRequest{Key: k})
		s.must(err)
	}
	if left := s.truth().Resources; len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestABucketThatHoldsObjectsStays(t *testing.T) {
	s := open(t, nil)
	k := s.create("logs", cloud.Bucket{})
	s.must(s.Admin().Fill(k, 3))
	_, err := s.Update(cloud.UpdateRequest{Key: k, Properties: cloud.Bucket{Public: true}})
	s.must(err)
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	if e := s.refusal(err, cloud.DependencyViolation); !strings.Contains(e.Message, "3 objects") {
		t.Error(e)
	}
	s.must(s.Admin().Fill(k, 0))
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
}

func TestASubnetFitsIntoItsNetworkAsItWillBe(t *testing.T) {
	s := open(t, only(cloud.TypeNetwork, cloud.Behaviour{UpdateTime: time.Hour}))
	k := s.create("net", cloud.Network{CIDR: "10.0.0.0/16"})
	_, err := s.Update(cloud.UpdateRequest{Key: k, Properties: cloud.Network{CIDR: "10.0.0.0/20"}})
	s.must(err)
	_, err = s.Create(cloud.CreateRequest{Scope: scope, Name: "a", Properties: cloud.Subnet{Network: k.ID, CIDR: "10.0.16.0/24"}})
	s.refused(err, cloud.InvalidParameter)
	s.create("a", cloud.Subnet{Network: k.ID, CIDR: "10.0.15.0/24"})
}

func TestAClusterMayKeepASubnetThatHasFailed(t *testing.T) {
	s := open(t, nil)
	_, a, b, role, cluster := s.estate()
	s.must(s.Inject(cloud.Fault{Verb: cloud.VerbUpdate, Type: cloud.TypeSubnet, Times: 2, Break: true}))
	for _, k := range []cloud.Key{a, b} {
		_, err := s.Update(cloud.UpdateRequest{Key: k, Tags: map[string]string{"x": "y"}})
		s.must(err)
	}
	_, err := s.Update(cloud.UpdateRequest{Key: cluster, Properties: cloud.Cluster{Subnets: []string{a.ID}, Role: role.ID, Nodes: 9}})
	s.must(err)
	_, err = s.Update(cloud.UpdateRequest{Key: cluster, Properties: cloud.Cluster{Subnets: []string{a.ID, b.ID}, Role: role.ID, Nodes: 9}})
	s.refused(err, cloud.InvalidState)
}

func TestAListIsSortedAndOfOneType(t *testing.T) {
	s := open(t, nil)
	_, err := s.List(cloud.Query{})
	s.refused(err, cloud.InvalidParameter)
	for _, where := range []string{"b", "a/x", "a"} {
		for _, name := range []string{"2", "1"} {
			_, err := s.Create(cloud.CreateRequest{Scope: where, Name: name, Properties: cloud.Bucket{}})
			s.must(err)
		}
	}
	s.create("role", cloud.Role{Trust: "x"})
	list := func(q cloud.Query) (out []string) {
		all, err := s.List(q)
		s.must(err)
		for _, r := range all {
			out = append(out, r.String())
		}
		return out
	}
	if diff := cmp.Diff([]string{"bucket a/1", "bucket a/2", "bucket a/x/1", "bucket a/x/2", "bucket b/1", "bucket b/2"}, list(cloud.Query{Type: cloud.TypeBucket})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"bucket a/1", "bucket a/2"}, list(cloud.Query{Type: cloud.TypeBucket, Scope: "a"})); diff != "" {
		t.Error(diff)
	}
}
