package cloudcontrol_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/testkit/cloudcontroltest"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// world is a cloud with one managed resource.
type world struct {
	*testing.T
	clock   *conformance.Clock
	cloud   *cloudcontroltest.Cloud
	kind    *cloudcontrol.Kind
	account *cloudcontrol.Account
	object  *unstructured.Unstructured
	// secrets are values by name, and version is the resource version of all.
	secrets map[string]string
	version string
	tokens  int
}

func newWorld(t *testing.T, typeName string, forProvider map[string]any, hooks hook.Hooks) *world {
	t.Helper()
	typ, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: conformance.NewClock(), secrets: map[string]string{}, version: "1"}
	w.cloud = cloudcontroltest.New(cloudcontroltest.Options{Now: w.clock.Now, Types: []*resourcetype.Type{typ}})
	w.kind = cloudcontrol.NewKind(typ, hooks, cloudcontrol.Options{Now: w.clock.Now})
	w.account = &cloudcontrol.Account{API: w.cloud, Scope: "1/r"}
	w.object = &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "app", "namespace": "prod"}, "spec": map[string]any{"forProvider": forProvider},
	}}
	return w
}

// Get returns a Secret.
func (w *world) Get(_ schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	value, ok := w.secrets[name]
	if !ok || namespace != "prod" {
		return nil, nil
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"resourceVersion": w.version}, "data": map[string]any{"password": value},
	}}, nil
}

// Owner returns nil.
func (w *world) Owner(external.Key) (*external.Owner, error) { return nil, nil }

func (w *world) connect() managed.Client[*unstructured.Unstructured] {
	w.Helper()
	c, err := w.kind.Connect(w.Context(), w.account, w, w.object)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) begin(c managed.Client[*unstructured.Unstructured], verb external.Verb, seen external.Observation) external.Op {
	w.Helper()
	request, err := c.Prepare(w.object, verb, seen)
	if err != nil {
		w.Fatal(err)
	}
	key, err := c.Identify(w.object)
	if err != nil {
		w.Fatal(err)
	}
	w.tokens++
	op, err := c.Begin(w.Context(), w.object, external.Intent{
		Verb: verb, Attempt: 1, Token: fmt.Sprintf("token-%d", w.tokens), Mark: external.Mark{ID: "m", Owner: "o"}, Key: key, Ref: seen.Ref, Request: request,
	})
	if err != nil {
		w.Fatal(err)
	}
	return op
}

func (w *world) create() external.Ref {
	w.Helper()
	op := w.begin(w.connect(), external.Create, external.Observation{})
	if op.Err != nil || !op.Done {
		w.Fatalf("the creation: %+v, %v", op, op.Err)
	}
	return op.Ref
}

func (w *world) observe(ref external.Ref) (managed.Client[*unstructured.Unstructured], external.Observation) {
	w.Helper()
	c := w.connect()
	o, err := c.Observe(w.Context(), w.object, ref)
	if err != nil {
		w.Fatal(err)
	}
	return c, o
}

func TestAChangedSecretIsSentOnce(t *testing.T) {
	w := newWorld(t, "AWS::RDS::DBInstance", map[string]any{"MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}}, hook.Hooks{})
	w.secrets["db"] = "Zmlyc3Q=" // first
	ref := w.create()
	if got := w.cloud.Properties("AWS::RDS::DBInstance", string(ref))["MasterUserPassword"]; got != "first" {
		t.Fatalf("the password is %v", got)
	}
	if _, o := w.observe(ref); o.UpToDate != external.Yes {
		t.Fatalf("after the creation: %s", o.Diff)
	}
	w.secrets["db"], w.version = "c2Vjb25k", "2" // second
	c, o := w.observe(ref)
	if o.UpToDate != external.No || strings.Contains(o.Diff, "second") {
		t.Fatalf("after a change of the Secret: %+v", o)
	}
	if op := w.begin(c, external.Update, o); op.Err != nil {
		t.Fatal(op.Err)
	}
	got := w.cloud.Properties("AWS::RDS::DBInstance", string(ref))
	if _, o = w.observe(ref); got["MasterUserPassword"] != "second" || o.UpToDate != external.Yes || o.Mark == nil || o.Mark.ID != "m" {
		t.Errorf("after the update: %+v; the resource is %v", o, got)
	}
}

// TestWriteOnlyValuesWithoutATag changes a write-only value of a type whose tags cannot be updated: a read does not show
// the change, and the digest does. Of a type with such tags there is none, since a tag has it.
func TestWriteOnlyValuesWithoutATag(t *testing.T) {
	data := func(instance string) map[string]any {
		return map[string]any{"LaunchTemplateData": map[string]any{"InstanceType": instance}}
	}
	w := newWorld(t, "AWS::EC2::LaunchTemplate", data("t3.micro"), hook.Hooks{})
	digest := func() string {
		c, ok := w.connect().(managed.WriteOnlyDigester[*unstructured.Unstructured])
		if !ok {
			t.Fatal("the client has no digest")
		}
		return c.WriteOnlyDigest(w.object)
	}
	ref, before := w.create(), digest()
	if again := digest(); before == "" || again != before {
		t.Fatalf("the digest is %q, and then %q", before, again)
	}
	w.object.Object["spec"] = map[string]any{"forProvider": data("t3.small")}
	if digest() == before {
		t.Error("another value has the same digest")
	}
	c, o := w.observe(ref)
	if o.UpToDate != external.Yes {
		t.Fatalf("the read shows a difference: %s", o.Diff)
	}
	if op := w.begin(c, external.Update, o); op.Err != nil {
		t.Fatal(op.Err)
	}
	if got := w.cloud.Properties("AWS::EC2::LaunchTemplate", string(ref)); fmt.Sprint(got["LaunchTemplateData"]) != "map[InstanceType:t3.small]" {
		t.Errorf("after the update, the resource is %v", got)
	}

	w = newWorld(t, "AWS::RDS::DBInstance", map[string]any{"MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}}, hook.Hooks{})
	w.secrets["db"] = "Zmlyc3Q="
	if got := digest(); got != "" {
		t.Errorf("a type with the digest in a tag has another one, %q", got)
	}
}

// TestASecretIsReadForAReferenceOnly has objects in the form of a reference in what users write as they like, and in
// what AWS returns.
func TestASecretIsReadForAReferenceOnly(t *testing.T) {
	literal := map[string]any{"$secret": map[string]any{"name": "db", "key": "password", "namespace": "prod"}}
	job := map[string]any{"Name": "app", "Role": "r", "Command": map[string]any{"Name": "glueetl"}, "DefaultArguments": map[string]any{"--x": literal}}
	w := newWorld(t, "AWS::Glue::Job", job, hook.Hooks{})
	w.secrets["db"] = "Zmlyc3Q=" // first
	ref := w.create()
	check := func() {
		t.Helper()
		properties := w.cloud.Properties("AWS::Glue::Job", string(ref))
		if got := fmt.Sprint(properties["DefaultArguments"]); !strings.Contains(got, "$secret") || strings.Contains(fmt.Sprint(properties), "first") {
			t.Errorf("AWS got %v", properties)
		}
	}
	check()
	job["DefaultArguments"] = map[string]any{"--x": literal, "--y": literal}
	c, o := w.observe(ref)
	if op := w.begin(c, external.Update, o); op.Err != nil {
		t.Fatal(op.Err)
	}
	check()
}

func TestAStoredRequestNamesItsSecrets(t *testing.T) {
	w := newWorld(t, "AWS::RDS::DBInstance", map[string]any{"MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}}, hook.Hooks{})
	w.secrets["db"] = "Zmlyc3Q=" // first
	var all []string
	for range 2 {
		request, err := w.connect().Prepare(w.object, external.Create, external.Observation{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(request))
	}
	place := `"secrets":[{"pointer":"/desired/MasterUserPassword","namespace":"prod","name":"db","key":"password","resourceVersion":"1"}]`
	if all[0] != all[1] || !strings.Contains(all[0], place) || strings.Contains(all[0], "first") || strings.Contains(all[0], "Zmlyc3Q") {
		t.Errorf("the requests are %q", all)
	}
}

func TestNothingIsSentWithoutItsSecret(t *testing.T) {
	w := newWorld(t, "AWS::RDS::DBInstance", map[string]any{"MasterUserPasswordSecretRef": map[string]any{"name": "db", "key": "password"}}, hook.Hooks{})
	if _, err := w.connect().Prepare(w.object, external.Create, external.Observation{}); err == nil || err.Error() != "the Secret prod/db does not exist" {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatCanOnlyBeSetAtCreationIsNamed(t *testing.T) {
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{})
	ref := w.create()
	w.object.Object["spec"] = map[string]any{"forProvider": map[string]any{"CidrBlock": "10.1.0.0/16"}}
	c, o := w.observe(ref)
	_, err := c.Prepare(w.object, external.Update, o)
	if err == nil || !strings.Contains(err.Error(), `CidrBlock is "10.0.0.0/16", and should be "10.1.0.0/16"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestSecretsThatAWSReturnsAreConnectionDetails(t *testing.T) {
	w := newWorld(t, "AWS::Cognito::UserPoolClient", map[string]any{"UserPoolId": "pool"}, hook.Hooks{})
	ref := w.create()
	w.cloud.Change("AWS::Cognito::UserPoolClient", string(ref), func(p map[string]any) { p["ClientSecret"] = "confidential" })
	_, o := w.observe(ref)
	if _, shown := o.AtProvider["ClientSecret"]; shown || string(o.Connection["ClientSecret"]) != "confidential" {
		t.Errorf("the status has %v, the connection secret %v", o.AtProvider, o.Connection)
	}
}

// TestVersionsThatAWSUpgradesAreNotStored has a database that gets a size and a version from AWS.
func TestVersionsThatAWSUpgradesAreNotStored(t *testing.T) {
	w := newWorld(t, "AWS::RDS::DBInstance", map[string]any{"Engine": "postgres"}, hook.Hooks{})
	ref := w.create()
	w.cloud.Change("AWS::RDS::DBInstance", string(ref), func(p map[string]any) { p["EngineVersion"], p["StorageType"] = "17.2", "gp3" })
	_, o := w.observe(ref)
	if _, stored := o.LateInit["EngineVersion"]; stored || o.LateInit["StorageType"] != "gp3" {
		t.Errorf("late initialization stores %v", o.LateInit)
	}
}

func TestAForgottenRequestHasEndedAfterItsTime(t *testing.T) {
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{})
	c := w.connect()
	was := external.Op{Resume: fmt.Sprintf("Create/%d/unknown", w.clock.Now().Unix())}
	if _, err := c.Poll(t.Context(), w.object, was); err == nil {
		t.Error("a request that AWS does not know yet has ended")
	}
	w.clock.Advance(8 * 24 * time.Hour)
	if op, err := c.Poll(t.Context(), w.object, was); err != nil || !op.Done || op.Err == nil || op.Err.Class != external.Failed {
		t.Errorf("after a week: %+v, %v", op, err)
	}
}

func TestADeletionWaitsForItsHook(t *testing.T) {
	waiting := "the bucket has objects"
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{
		BeforeDelete: func(context.Context, aws.Config, hook.Target) (string, error) { return waiting, nil },
	})
	ref := w.create()
	c, o := w.observe(ref)
	if op := w.begin(c, external.Delete, o); op.Err == nil || op.Err.Message != waiting || w.cloud.Calls("DeleteResource") != 0 {
		t.Fatalf("the deletion: %+v", op)
	}
	waiting = ""
	if op := w.begin(c, external.Delete, o); op.Err != nil || w.cloud.Count("AWS::EC2::VPC") != 0 {
		t.Errorf("the deletion: %+v", op)
	}
}

// TestObservationsUseTheReadOfMany observes 100 VPCs with the hook, and no other read.
func TestObservationsUseTheReadOfMany(t *testing.T) {
	calls := 0
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{
		Unread: []string{"DefaultNetworkAcl"},
		ReadMany: func(_ context.Context, _ aws.Config, ids []string) (map[string]hook.Resource, error) {
			calls++
			out := map[string]hook.Resource{}
			for _, id := range ids {
				if id != "gone" {
					out[id] = hook.Resource{Identifier: id, Properties: map[string]any{"CidrBlock": "10.0.0.0/16", "VpcId": id}}
				}
			}
			return out, nil
		},
	})
	w.account.Reads = cloudcontrol.NewReads(nil)
	w.object.Object["status"] = map[string]any{"atProvider": map[string]any{"DefaultNetworkAcl": "acl-1"}}
	if _, o := w.observe("vpc-1"); o.UpToDate != external.Yes || o.AtProvider["DefaultNetworkAcl"] != "acl-1" || w.cloud.Calls("GetResource") > 0 || calls != 1 {
		t.Errorf("the observation is %+v, with %d calls", o, calls)
	}
	if _, o := w.observe("gone"); o.Presence != external.Absent || w.cloud.Calls("GetResource") != 1 {
		t.Errorf("of a resource that is gone: %+v; it takes %d reads of its own", o, w.cloud.Calls("GetResource"))
	}
}

// TestASearchReadsManyAtOnce searches in 250 VPCs, whose tags are not in lists.
func TestASearchReadsManyAtOnce(t *testing.T) {
	calls := 0
	var w *world
	w = newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{
		ReadMany: func(_ context.Context, _ aws.Config, ids []string) (map[string]hook.Resource, error) {
			calls++
			out := map[string]hook.Resource{}
			for _, id := range ids {
				out[id] = hook.Resource{Identifier: id, Properties: w.cloud.Properties("AWS::EC2::VPC", id)}
			}
			return out, nil
		},
	})
	w.cloud.ListOmitsTags = true
	for range 250 {
		w.create()
	}
	found, err := w.connect().Find(t.Context(), w.object, external.Key{}, external.Mark{Owner: "o"})
	if err != nil || len(found) != 250 {
		t.Fatalf("%d are found: %v", len(found), err)
	}
	if calls != 25 || w.cloud.Calls("GetResource") != 0 { // a page of the list has ten
		t.Errorf("%d calls read many, and %d one", calls, w.cloud.Calls("GetResource"))
	}
}
