package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestLives has a resource of each type live: it is created, at rest, changed in place, refuses a replacement,
// is set back after a change behind the controllers' backs, is orphaned, observed and adopted, and deleted.
func TestLives(t *testing.T) {
	for _, life := range awscloud.Lives() {
		t.Run(life.Type, func(t *testing.T) { live(t, life) })
	}
}

func live(t *testing.T, life awscloud.Life) {
	s := newSuite(t)
	resolve := createNeeds(t, s, life)
	wanted := awscloud.Resolve(life.Create, resolve)
	create(t, s, life.Type, "own", wanted)
	id := identifier(awaitSynced(t, s, life.Type, "own"))
	checkNative(t, life.Type, id, wanted)
	checkAtRest(t, life.Type, id)
	if len(life.Update) > 0 {
		wanted = maps.Clone(wanted)
		maps.Copy(wanted, awscloud.Resolve(life.Update, resolve))
		change(t, s, life.Type, "own", wanted)
		if got := identifier(awaitSynced(t, s, life.Type, "own")); got != id {
			t.Errorf("the change has replaced %s by %s", id, got)
		}
		checkNative(t, life.Type, id, wanted)
		if canDrift(t, life) {
			drift(t, life, id, wanted, resolve)
			checkAtRest(t, life.Type, id)
		}
	}
	if len(life.Refused) > 0 {
		checkRefused(t, s, life, wanted, resolve)
	}
	adopt(t, s, life, id, wanted)
	s.Delete(t, kindOf(t, life.Type), s.NS, "own")
	s.AwaitGone(t, kindOf(t, life.Type), s.NS, "own")
	checkGone(t, life.Type, id)
	deleteNeeds(t, s, life)
}

// createNeeds creates what a resource needs, and returns the function that resolves references to it.
func createNeeds(t *testing.T, s suite.Suite, life awscloud.Life) (resolve func(name, property string) string) {
	t.Helper()
	made := map[string]*unstructured.Unstructured{}
	resolve = func(name, property string) string {
		if property == "" {
			return identifier(made[name])
		}
		value, _, _ := unstructured.NestedString(made[name].Object, "status", "atProvider", property)
		return value
	}
	for _, name := range life.Order() {
		need := life.Needs[name]
		create(t, s, need.Type, "need-"+name, awscloud.Resolve(need.Create, resolve))
		made[name] = awaitSynced(t, s, need.Type, "need-"+name)
	}
	return resolve
}

func deleteNeeds(t *testing.T, s suite.Suite, life awscloud.Life) {
	t.Helper()
	order := life.Order()
	slices.Reverse(order)
	for _, name := range order {
		kind := kindOf(t, life.Needs[name].Type)
		s.Delete(t, kind, s.NS, "need-"+name)
		s.AwaitGone(t, kind, s.NS, "need-"+name)
	}
}

// change sets forProvider.
func change(t *testing.T, s suite.Suite, typeName, name string, forProvider map[string]any) {
	t.Helper()
	if err := tryChange(t, s, typeName, name, forProvider); err != nil {
		t.Fatal(err)
	}
}

func tryChange(t *testing.T, s suite.Suite, typeName, name string, forProvider map[string]any) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"forProvider": withSecrets(t, s, typeName, name, forProvider)}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Resource(t, kindOf(t, typeName), s.NS).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// clone copies properties, with the types of numbers that objects have.
func clone(t *testing.T, properties map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(properties)
	if err != nil {
		t.Fatal(err)
	}
	out, err := model.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// native returns the properties of a resource by the cloud's native APIs, nil if it does not exist.
func native(t *testing.T, typeName, id string) map[string]any {
	t.Helper()
	found, err := cloud.Describe(t.Context(), typeName, id)
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		return nil
	}
	return found.Properties
}

// schemaOf returns the schema of a type, and the properties in which something is write-only.
func schemaOf(t *testing.T, typeName string) (*resourcetype.Type, map[string]bool) {
	t.Helper()
	schema, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	writeOnly := map[string]bool{}
	for _, path := range schema.WriteOnlyProperties {
		writeOnly[path[0]] = true
	}
	return schema, writeOnly
}

// canDrift reports whether reads of the Cloud Control API show a change of what the life updates.
func canDrift(t *testing.T, life awscloud.Life) bool {
	t.Helper()
	_, writeOnly := schemaOf(t, life.Type)
	for name := range life.Update {
		if !writeOnly[name] {
			return true
		}
	}
	return false
}

// differences compares what is wanted with what the native API shows, which are all properties but some that are write-only.
func differences(t *testing.T, typeName, id string, wanted map[string]any) error {
	t.Helper()
	is := native(t, typeName, id)
	if is == nil {
		return fmt.Errorf("%s %s does not exist", typeName, id)
	}
	schema, writeOnly := schemaOf(t, typeName)
	wanted = maps.Clone(wanted)
	for name := range wanted {
		switch {
		case is[name] != nil:
		case writeOnly[name]:
			delete(wanted, name)
		default:
			return fmt.Errorf("%s %s has no %s", typeName, id, name)
		}
	}
	shown := *schema
	shown.WriteOnlyProperties = nil
	if found := model.Compare(&shown, clone(t, wanted), clone(t, is)); len(found.Differences) > 0 {
		return errors.New(found.String())
	}
	return nil
}

func checkNative(t *testing.T, typeName, id string, wanted map[string]any) {
	t.Helper()
	if err := differences(t, typeName, id, wanted); err != nil {
		t.Error(err)
	}
}

func checkGone(t *testing.T, typeName, id string) {
	t.Helper()
	if is := native(t, typeName, id); is != nil {
		t.Errorf("%s %s still exists", typeName, id)
	}
}

// patience is how long await waits.
const patience = time.Minute

// await waits for something in the cloud, which cannot be watched.
func await(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// calls counts the calls of an operation about a resource.
func calls(operation, typeName, id string) (n int) {
	for _, c := range cloud.Calls() {
		if c.Operation == operation && c.Type == typeName && c.Identifier == id {
			n++
		}
	}
	return n
}

// checkAtRest waits until a resource was read again twice, and checks that it was not changed meanwhile.
func checkAtRest(t *testing.T, typeName, id string) {
	t.Helper()
	reads := func() int { return calls(awscloud.GetResource, typeName, id) }
	if operation := batched[typeName]; operation != "" {
		reads = func() int { return calls(awscloud.GetResource, typeName, id) + cloud.Count(operation, "") }
	}
	before, updates := reads(), calls(awscloud.UpdateResource, typeName, id)
	await(t, func() error {
		if reads() < before+2 {
			return fmt.Errorf("%s %s is not read again: %v", typeName, id, journal())
		}
		return nil
	})
	if n := calls(awscloud.UpdateResource, typeName, id) - updates; n > 0 {
		t.Errorf("%d updates of a %s at rest", n, typeName)
	}
}

// drift changes a resource behind the controllers' backs, and waits until they have changed it back. Where the implementation
// has no native call that changes it, another client of the Cloud Control API does.
func drift(t *testing.T, life awscloud.Life, id string, wanted map[string]any, resolve func(name, property string) string) {
	t.Helper()
	updates := calls(awscloud.UpdateResource, life.Type, id)
	if life.Drift.Call == "" {
		updates += updateAsOthers(t, life, id, resolve)
	} else if _, err := cloud.Call(t.Context(), life.Drift, id, resolve, ""); err != nil {
		t.Fatal(err)
	}
	await(t, func() error {
		if calls(awscloud.UpdateResource, life.Type, id) == updates {
			return fmt.Errorf("%s %s is not changed back", life.Type, id)
		}
		return differences(t, life.Type, id, wanted)
	})
}

// updateAsOthers sets a resource back to how it was created, and returns how many calls it has made.
func updateAsOthers(t *testing.T, life awscloud.Life, id string, resolve func(name, property string) string) (n int) {
	t.Helper()
	created, back := awscloud.Resolve(life.Create, resolve), map[string]any{}
	for name := range life.Update {
		if value, was := created[name]; was {
			back[name] = value
		}
	}
	client := cloudcontrol.NewFromConfig(cloud.Config(), func(o *cloudcontrol.Options) { o.Retryer = awssdk.NopRetryer{} })
	await(t, func() error {
		n++
		out, err := client.UpdateResource(t.Context(), &cloudcontrol.UpdateResourceInput{
			TypeName: &life.Type, Identifier: &id, PatchDocument: awssdk.String(awscloud.Patch(back)),
		})
		if err != nil {
			return err
		}
		waiter := cloudcontrol.NewResourceRequestSuccessWaiter(client, func(o *cloudcontrol.ResourceRequestSuccessWaiterOptions) {
			o.MinDelay, o.MaxDelay = 10*time.Millisecond, 100*time.Millisecond
		})
		return waiter.Wait(context.WithoutCancel(t.Context()), &cloudcontrol.GetResourceRequestStatusInput{RequestToken: out.ProgressEvent.RequestToken}, time.Minute)
	})
	return n
}

// checkRefused changes what AWS only sets when it creates a resource: the API server or the condition names the field.
func checkRefused(t *testing.T, s suite.Suite, life awscloud.Life, wanted map[string]any, resolve func(name, property string) string) {
	t.Helper()
	other := maps.Clone(wanted)
	maps.Copy(other, awscloud.Resolve(life.Refused, resolve))
	field := slices.Sorted(maps.Keys(life.Refused))[0]
	err := tryChange(t, s, life.Type, "own", other)
	if err != nil {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the refusal of a change of %s does not name it: %v", field, err)
		}
		return
	}
	s.Await(t, kindOf(t, life.Type), s.NS, "own", func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, resource.Synced) != "False" || !strings.Contains(testkit.ConditionMessage(o, resource.Synced), field) {
			return fmt.Errorf("a change of %s is not refused: %s", field, testkit.ConditionMessage(o, resource.Synced))
		}
		return nil
	})
	change(t, s, life.Type, "own", wanted)
	awaitSynced(t, s, life.Type, "own")
}

// adopt deletes the object and keeps its resource, and has a new object observe and then adopt that. It has the same
// name, which the resource's mark says.
func adopt(t *testing.T, s suite.Suite, life awscloud.Life, id string, wanted map[string]any) {
	t.Helper()
	kind := kindOf(t, life.Type)
	s.Patch(t, kind, s.NS, "own", `{"spec":{"deletionPolicy":"Orphan"}}`)
	s.Delete(t, kind, s.NS, "own")
	s.AwaitGone(t, kind, s.NS, "own")
	checkNative(t, life.Type, id, wanted)
	create(t, s, life.Type, "own", wanted, func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{resource.ExternalNameAnnotation: id, resource.PollIntervalAnnotation: poll.String()})
		if err := unstructured.SetNestedStringSlice(o.Object, []string{"Observe"}, "spec", "managementPolicies"); err != nil {
			t.Fatal(err)
		}
	})
	awaitSynced(t, s, life.Type, "own")
	s.Patch(t, kind, s.NS, "own", `{"spec":{"managementPolicies":["*"]}}`)
	if got := identifier(awaitSynced(t, s, life.Type, "own")); got != id {
		t.Errorf("the object has adopted %s instead of %s", got, id)
	}
	checkNative(t, life.Type, id, wanted)
}

// batched are the types whose resources are read together, with the operation of the native API.
var batched = map[string]string{
	"AWS::EC2::VPC": "DescribeVpcs", "AWS::EC2::Subnet": "DescribeSubnets", "AWS::EC2::SecurityGroup": "DescribeSecurityGroups",
	"AWS::EC2::RouteTable": "DescribeRouteTables", "AWS::EC2::InternetGateway": "DescribeInternetGateways", "AWS::EC2::NatGateway": "DescribeNatGateways",
}

// journal counts the calls of each operation.
func journal() map[string]int {
	out := map[string]int{}
	for _, c := range cloud.Calls() {
		out[strings.TrimSpace(c.Operation+" "+c.Type)]++
	}
	return out
}
