package cloudcontrol_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/testkit/cloudcontroltest"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
)

// tested is a resource type with an object of its kind, and a change of it.
type tested struct {
	typ    string
	object func(name string) map[string]any
	change func(forProvider map[string]any)
	secret bool
	// isUnfindable: nothing but the token shows the outcome of a creation.
	isUnfindable bool
}

var testedTypes = map[string]tested{
	"VPC": {
		typ: "AWS::EC2::VPC",
		object: func(string) map[string]any {
			return map[string]any{"CidrBlock": "10.0.0.0/16", "Tags": []any{map[string]any{"Key": "team", "Value": "a"}}}
		},
		change: func(p map[string]any) {
			p["EnableDnsSupport"], p["Tags"] = true, []any{map[string]any{"Key": "team", "Value": "b"}}
		},
	},
	"Role": {
		typ: "AWS::IAM::Role",
		object: func(string) map[string]any {
			return map[string]any{"AssumeRolePolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{"Action": "sts:AssumeRole"}}}}
		},
		change: func(p map[string]any) { p["Description"] = "changed" },
	},
	"Subnet": {
		typ: "AWS::EC2::Subnet",
		object: func(string) map[string]any {
			return map[string]any{"VpcId": "vpc-1", "VpcIdRef": map[string]any{"name": "net"}, "CidrBlock": "10.0.1.0/24"}
		},
		change: func(p map[string]any) { p["MapPublicIpOnLaunch"] = true },
	},
	"OriginAccessControl, which has no tags": {
		typ: "AWS::CloudFront::OriginAccessControl",
		object: func(name string) map[string]any {
			return map[string]any{"OriginAccessControlConfig": map[string]any{"Name": name, "OriginAccessControlOriginType": "s3", "SigningBehavior": "always", "SigningProtocol": "sigv4"}}
		},
		change:       func(p map[string]any) { p["OriginAccessControlConfig"].(map[string]any)["SigningBehavior"] = "never" },
		isUnfindable: true,
	},
	"UserPoolGroup, with an identifier of two parts": {
		typ:    "AWS::Cognito::UserPoolGroup",
		object: func(string) map[string]any { return map[string]any{"UserPoolId": "pool"} },
		change: func(p map[string]any) { p["Precedence"] = int64(7) },
	},
	"UserPoolClient, with an identifier of two parts that AWS completes": {
		typ:          "AWS::Cognito::UserPoolClient",
		object:       func(name string) map[string]any { return map[string]any{"UserPoolId": "pool", "ClientName": name} },
		change:       func(p map[string]any) { p["AccessTokenValidity"] = int64(7) },
		isUnfindable: true,
	},
	"DBInstance, with a secret": {
		typ: "AWS::RDS::DBInstance",
		object: func(string) map[string]any {
			return map[string]any{"DBInstanceClass": "db.t4g.micro", "AllocatedStorage": "20", "MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}}
		},
		change: func(p map[string]any) { p["DBInstanceClass"] = "db.t4g.small" },
		secret: true,
	},
}

const password = "correct-horse-battery"

// clouds are clouds with different behaviours.
var clouds = map[string]cloudcontroltest.Options{
	"which answers at once":                         {},
	"which takes time":                              {Duration: 20 * time.Second},
	"which shows changes late":                      {Duration: 7 * time.Second, Lag: 5 * time.Second, ListOmitsTags: true},
	"which refuses repeated tokens":                 {Duration: 20 * time.Second, Repetition: cloudcontroltest.Conflict},
	"which names the operation of a repeated token": {Duration: 20 * time.Second, Repetition: cloudcontroltest.Associated},
	"which ignores tokens":                          {Duration: 5 * time.Second, Repetition: cloudcontroltest.NewRequest},
}

// TestConformance tests VPCs with all behaviours, and the other types with two. With ESPALIER_TEST_FULL, all
// scenarios of all combinations run.
func TestConformance(t *testing.T) {
	full := os.Getenv("ESPALIER_TEST_FULL") != ""
	for name, kind := range testedTypes {
		for behaviour, options := range clouds {
			if !full && name != "VPC" && options.Duration != 20*time.Second {
				continue
			}
			if kind.isUnfindable && options.Repetition == cloudcontroltest.Conflict {
				continue // nothing shows the outcome, and a person has to decide
			}
			t.Run(name+"/in a cloud "+behaviour, func(t *testing.T) {
				t.Parallel()
				conformance.Run(t, suite(t, kind, options, full))
			})
		}
	}
}

func suite(t *testing.T, kind tested, options cloudcontroltest.Options, full bool) conformance.Suite[*unstructured.Unstructured] {
	t.Helper()
	typ, err := catalog.Get(kind.typ)
	if err != nil {
		t.Fatal(err)
	}
	clock := conformance.NewClock()
	options.Now, options.Types = clock.Now, []*resourcetype.Type{typ}
	cloud := cloudcontroltest.New(options)
	scenarios := 40
	if full {
		scenarios = 0
	}
	s := conformance.Suite[*unstructured.Unstructured]{
		Kind: func() managed.Kind { return newKind(t, typ, cloud, clock.Now, options) },
		New: func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": name, "namespace": "prod"},
				"spec":     map[string]any{"forProvider": kind.object(name)},
			}}
		},
		Change: func(o *unstructured.Unstructured) {
			kind.change(o.Object["spec"].(map[string]any)["forProvider"].(map[string]any))
		},
		Clock: clock, MaxScenarios: scenarios,
		Count:    func(context.Context, *unstructured.Unstructured) (int, error) { return cloud.Count(kind.typ), nil },
		Snapshot: func(context.Context) (string, error) { return cloud.Snapshot(), nil },
	}
	failure := types.HandlerErrorCodeServiceInternalError
	if kind.isUnfindable {
		failure = types.HandlerErrorCodeGeneralServiceException
	}
	for name, fault := range map[string]cloudcontroltest.Fault{
		"the cloud was unavailable":             {Refuse: true},
		"the cloud throttled":                   {Throttle: true},
		"the cloud lost its answers":            {LoseAnswer: true},
		"operations of the cloud failed":        {Fail: failure},
		"failed creations left their resources": {Fail: types.HandlerErrorCodeNotStabilized, LeaveResource: true},
	} {
		s.Faults = append(s.Faults, conformance.Fault{Name: name, Inject: func() func() {
			cloud.Inject(fault)
			return func() { cloud.Inject(cloudcontroltest.Fault{}) }
		}})
	}
	if kind.secret {
		s.Objects = []runtime.Object{&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "db", ResourceVersion: "1"}, Data: map[string][]byte{"password": []byte(password)},
		}}
		s.Secrets = []string{password}
	}
	return s
}

func newKind(t *testing.T, typ *resourcetype.Type, cloud *cloudcontroltest.Cloud, now func() time.Time, options cloudcontroltest.Options) managed.Kind {
	t.Helper()
	kind := cloudcontrol.NewKind(typ, hook.Hooks{}, cloudcontrol.Options{Now: now, IgnoresTokens: options.Repetition == cloudcontroltest.NewRequest})
	name, err := naming.Of(typ.Name, false)
	if err != nil {
		t.Fatal(err)
	}
	account := &cloudcontrol.Account{API: cloud, Scope: "123456789012/eu-west-1"}
	return managed.For(managed.Definition[*unstructured.Unstructured]{
		Kind: name.GroupVersionKind(),
		New:  func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
		Caps: kind.Caps,
		Connect: func(ctx context.Context, objects managed.Objects, m *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
			return kind.Connect(ctx, account, objects, m)
		},
	})
}
