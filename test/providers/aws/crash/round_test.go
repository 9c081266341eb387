package crash

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
)

// member is a resource of a round. $NS is replaced by the namespace, which is unique.
type member struct {
	typ, name string
	// create is forProvider, changed what changes in it, both in YAML.
	create, changed string
	// policies are the management policies; all by default.
	policies string
	// first is deleted before the others, which it needs.
	first bool
}

// members are the resources of a round: named by AWS or by the user, with references, a Secret and
// documents. Native APIs list all their types.
var members = []member{
	{typ: "AWS::EC2::VPC", name: "net", create: `{CidrBlock: 10.40.0.0/16, Tags: [{Key: team, Value: one}]}`, changed: `{EnableDnsHostnames: true}`},
	{typ: "AWS::EC2::Subnet", name: "sub", create: `{VpcIdRef: {name: net}, CidrBlock: 10.40.1.0/24}`, changed: `{MapPublicIpOnLaunch: true}`, first: true},
	{typ: "AWS::EC2::SecurityGroup", name: "firewall", create: `{VpcIdRef: {name: net}, GroupDescription: web, GroupName: $NS}`, changed: `{Tags: [{Key: team, Value: two}]}`, first: true},
	{typ: "AWS::EC2::InternetGateway", name: "gateway", create: `{Tags: [{Key: team, Value: one}]}`, changed: `{Tags: [{Key: team, Value: two}]}`},
	{typ: "AWS::S3::Bucket", name: "bucket", create: `{BucketName: bucket-$NS}`, changed: `{VersioningConfiguration: {Status: Enabled}}`},
	{typ: "AWS::IAM::Role", name: "role", create: `{RoleName: role-$NS, AssumeRolePolicyDocument: {Version: "2012-10-17", Statement: [{Effect: Allow, Principal: {Service: eks.amazonaws.com}, Action: "sts:AssumeRole"}]}}`, changed: `{Description: changed}`},
	{typ: "AWS::EKS::Cluster", name: "cluster", create: `{Name: cluster-$NS, Version: "1.30", RoleArnRef: {name: role}, ResourcesVpcConfig: {SubnetIdsRefs: [{name: sub}]}}`, changed: `{Version: "1.31"}`, first: true},
	{typ: "AWS::RDS::DBInstance", name: "db", create: `{DBInstanceIdentifier: db-$NS, Engine: postgres, DBInstanceClass: db.t3.micro, AllocatedStorage: "20", MasterUsername: owner, MasterUserPasswordSecretRef: {name: db, key: password}}`, changed: `{DBInstanceClass: db.t3.small}`},
	{typ: "AWS::CloudFront::Distribution", name: "site", create: `{DistributionConfig: {Enabled: true, Comment: one, DefaultCacheBehavior: {TargetOriginId: site, ViewerProtocolPolicy: redirect-to-https, CachePolicyId: 658327ea-f89d-4fab-a63d-7e88639e58f6}, Origins: [{Id: site, DomainName: site.example.org, CustomOriginConfig: {OriginProtocolPolicy: https-only}}]}}`, changed: `{DistributionConfig: {Comment: two}}`,
		policies: "[Create, Update, Delete, Observe]"},
	{typ: "AWS::SQS::Queue", name: "queue", create: `{QueueName: queue-$NS, VisibilityTimeout: 30}`, changed: `{VisibilityTimeout: 60}`},
	{typ: "AWS::DynamoDB::Table", name: "table", create: `{TableName: table-$NS, BillingMode: PAY_PER_REQUEST, AttributeDefinitions: [{AttributeName: id, AttributeType: S}], KeySchema: [{AttributeName: id, KeyType: HASH}]}`, changed: `{Tags: [{Key: team, Value: two}]}`},
}

// manifest is the object of a member.
func (m member) manifest(t *testing.T, ns string) string {
	t.Helper()
	kind := kindOf(t, m.typ)
	policies := m.policies
	if policies == "" {
		policies = `["*"]`
	}
	return strings.ReplaceAll(fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: $NS}\nspec: {managementPolicies: %s, forProvider: %s}\n",
		kind.GroupVersion(), kind.Kind, m.name, policies, m.create), "$NS", ns)
}

// round is the creation, change and deletion of all members at once.
type round struct {
	*plane
	name string
	// crashes returns the crash of the next process; nil for none.
	crashes func() crash
	// fault happens to each verb's first call of each type; an empty one is none.
	fault  *awscloud.Fault
	repeat awscloud.Repeat
}

// crash ends a process at one of its writes.
type crash interface {
	Wrap(config *rest.Config) *rest.Config
	Crashed() <-chan struct{}
	Writes() int
}

// trace counts what happened in a round.
type trace struct{ writes, crashes int }

// run runs a round and checks it.
func (r round) run(t *testing.T) (out trace) {
	t.Helper()
	ns := testkit.Namespace(t, r.config)
	cloud.ClearFaults()
	cloud.SetRepeat(r.repeat)
	if r.fault != nil {
		for _, m := range members {
			for _, operation := range []string{awscloud.CreateResource, awscloud.UpdateResource, awscloud.DeleteResource} {
				fault := *r.fault
				fault.Type, fault.Operation = m.typ, operation
				cloud.Inject(fault)
			}
		}
	}
	end := r.control(t, &out)
	defer end()
	r.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: "+ns+"}\nstringData: {password: first-password}\n")
	generations := map[string]int64{}
	for _, m := range members {
		generations[m.name] = r.Apply(t, m.manifest(t, ns))[0].GetGeneration()
	}
	identifiers := r.check(t, ns, generations, nil)
	for _, m := range members {
		r.Patch(t, kindOf(t, m.typ), ns, m.name, `{"spec":{"forProvider":`+toJSON(t, m.changed)+`}}`)
		generations[m.name]++
	}
	r.check(t, ns, generations, identifiers)
	for _, first := range []bool{true, false} {
		for _, m := range members {
			if m.first == first {
				r.Delete(t, kindOf(t, m.typ), ns, m.name)
			}
		}
		for _, m := range members {
			if m.first == first {
				r.AwaitGone(t, kindOf(t, m.typ), ns, m.name)
			}
		}
	}
	for _, m := range members {
		if left := owned(t, m.typ, ns, m.name); len(left) > 0 {
			t.Errorf("%s: after the deletion of the %s: %v", r.name, m.typ, left)
		}
	}
	r.awaitNoBindings(t, ns)
	end()
	return out
}

// check waits until all members are as specified, and checks that there is one resource of each, with the
// identifier that the object has, and had before.
func (r round) check(t *testing.T, ns string, generations map[string]int64, before map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range members {
		o := r.Await(t, kindOf(t, m.typ), ns, m.name, isSynced(generations[m.name]))
		out[m.name] = identifier(o)
		switch found := owned(t, m.typ, ns, m.name); {
		case len(found) != 1:
			t.Errorf("%s: %d resources of the type %s: %v", r.name, len(found), m.typ, found)
		case found[0].Identifier != out[m.name], before != nil && before[m.name] != out[m.name]:
			t.Errorf("%s: the %s is %s, was %s, and exists as %s", r.name, m.typ, out[m.name], before[m.name], found[0].Identifier)
		}
	}
	return out
}

// awaitNoBindings waits until the Bindings of a namespace are gone.
func (r round) awaitNoBindings(t *testing.T, ns string) {
	t.Helper()
	r.AwaitList(t, bindingKind, "", "", func(objects map[string]*unstructured.Unstructured) error {
		for key, o := range objects {
			if of, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "namespace"); of == ns {
				return fmt.Errorf("Binding %s remains: %v", key, o.Object["spec"])
			}
		}
		return nil
	})
}

// control runs controllers, and runs them again after each crash. It returns a function that stops them.
func (r round) control(t *testing.T, out *trace) (end func()) {
	t.Helper()
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			var process crash = testkit.NewCrash(0)
			if r.crashes != nil {
				process = r.crashes()
			}
			stop := r.start(t, process.Wrap(r.config))
			select {
			case <-process.Crashed():
				stop()
				out.writes += process.Writes()
				out.crashes++
			case <-stopping:
				stop()
				out.writes += process.Writes()
				return
			}
		}
	}()
	return func() {
		select {
		case <-stopping:
		default:
			close(stopping)
		}
		<-stopped
	}
}

func toJSON(t *testing.T, text string) string {
	t.Helper()
	o := testkit.Parse(t, "apiVersion: v1\nkind: X\nspec: "+text+"\n")[0]
	raw, err := json.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
