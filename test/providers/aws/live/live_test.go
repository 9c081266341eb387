package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestLives has a resource of each type live, as the tests on the test cloud do: it is created, changed in place, set
// back after a change by another client, and deleted. What exists is judged by AWS's Cloud Control API.
func TestLives(t *testing.T) {
	for _, life := range awscloud.Lives() {
		if isTested(life.Type) {
			// One after the other, since an account has five VPCs by default.
			t.Run(life.Type, func(t *testing.T) { test(t, life) })
		}
	}
}

func test(t *testing.T, life awscloud.Life) {
	s := suite.NewSerial(t)
	activate(t, s)
	made := map[string]*unstructured.Unstructured{}
	resolve := func(name, property string) string {
		if property == "" {
			return identifier(made[name])
		}
		value, _, _ := unstructured.NestedString(made[name].Object, "status", "atProvider", property)
		return value
	}
	order := life.Order()
	for _, name := range order {
		need := life.Needs[name]
		create(t, s, need.Type, "need-"+name, own(t, need.Type, awscloud.Resolve(need.Create, resolve), true))
		made[name] = awaitSynced(t, s, need.Type, "need-"+name)
	}
	wanted := own(t, life.Type, awscloud.Resolve(life.Create, resolve), true)
	create(t, s, life.Type, "own", wanted)
	id := identifier(awaitSynced(t, s, life.Type, "own"))
	check(t, life.Type, id, wanted)
	if len(life.Update) > 0 {
		before := maps.Clone(wanted)
		maps.Copy(wanted, own(t, life.Type, awscloud.Resolve(life.Update, resolve), false))
		s.Patch(t, kindOf(t, life.Type), s.NS, "own", patchOf(t, wanted))
		if got := identifier(awaitSynced(t, s, life.Type, "own")); got != id {
			t.Errorf("the change has replaced %s by %s", id, got)
		}
		check(t, life.Type, id, wanted)
		drift(t, s, life, id, before, wanted)
	}
	slices.Reverse(order)
	remaining := append([]string{"own"}, order...)
	for _, name := range remaining {
		typeName := life.Type
		if name != "own" {
			typeName, name = life.Needs[name].Type, "need-"+name
		}
		s.Delete(t, kindOf(t, typeName), s.NS, name)
		awaitGone(t, s, typeName, name)
	}
	if _, found := read(t, life.Type, id); found {
		t.Errorf("%s %s still exists", life.Type, id)
	}
}

// activate serves the kinds of the types, with a configuration for the account.
func activate(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, kind := range []string{"resourcetypeactivations", "clusterproviderconfigs"} {
		s.Await(t, suite.CRD, "", kind+"."+v1alpha1.GroupVersion.Group, func(o *unstructured.Unstructured) error {
			if o == nil || testkit.ConditionStatus(o, "Established") != "True" {
				return fmt.Errorf("%s is not served", kind)
			}
			return nil
		})
	}
	endpoint := ""
	if live.endpoint != "" {
		endpoint = "\n  endpoint: {url: '" + live.endpoint + "'}"
	}
	s.Apply(t, `
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: live}
spec: {types: ["`+strings.Join(types, `", "`)+`"]}
---
apiVersion: aws.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: default}
spec:
  region: `+live.config.Region+`
  credentials: {source: Default}`+endpoint+"\n")
	s.AwaitReady(t, v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceTypeActivationKind), "", "live")
}

// own returns properties with names of this run, and with its tag: where there are tags, or in all that are created.
func own(t *testing.T, typeName string, properties map[string]any, creation bool) map[string]any {
	t.Helper()
	raw, err := json.Marshal(properties)
	if err != nil {
		t.Fatal(err)
	}
	out, err := model.Decode([]byte(strings.ReplaceAll(string(raw), `"life-`, `"`+tag+"-"+live.run+"-")))
	if err != nil {
		t.Fatal(err)
	}
	switch tags, has := out["Tags"].([]any); {
	case !has && !creation:
	case typeName == "AWS::SSM::Parameter":
		out["Tags"] = map[string]any{tag: live.run}
	default:
		out["Tags"] = append(tags, map[string]any{"Key": tag, "Value": live.run})
	}
	return out
}

// drift changes a resource as another client does, and waits until that is set back.
func drift(t *testing.T, s suite.Suite, life awscloud.Life, id string, before, wanted map[string]any) {
	t.Helper()
	back := map[string]any{}
	for name := range life.Update {
		if value, was := before[name]; was {
			back[name] = value
		}
	}
	if len(back) == 0 {
		return
	}
	patch := awscloud.Patch(back)
	out, err := live.client.UpdateResource(t.Context(), &cloudcontrol.UpdateResourceInput{TypeName: &life.Type, Identifier: &id, PatchDocument: &patch})
	if err != nil {
		t.Fatal(err)
	}
	if err := await(t.Context(), out.ProgressEvent.RequestToken); err != nil {
		t.Fatal(err)
	}
	s.Patch(t, kindOf(t, life.Type), s.NS, "own", `{"metadata":{"annotations":{"`+resource.ReconcileRequestedAtAnnotation+`":"now"}}}`)
	check(t, life.Type, id, wanted)
}

// patience is how long something in AWS may take.
const patience = 5 * time.Minute

// check waits until AWS has what is wanted.
func check(t *testing.T, typeName, id string, wanted map[string]any) {
	t.Helper()
	schema, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		is, found := read(t, typeName, id)
		if !found {
			return fmt.Errorf("%s %s does not exist", typeName, id)
		}
		if compared := model.Compare(schema, wanted, is); len(compared.Differences) > 0 {
			return errors.New(compared.String())
		}
		return nil
	})
}

// read reads a resource.
func read(t *testing.T, typeName, id string) (map[string]any, bool) {
	t.Helper()
	out, err := live.client.GetResource(t.Context(), &cloudcontrol.GetResourceInput{TypeName: &typeName, Identifier: &id})
	if err != nil {
		if strings.Contains(err.Error(), "NotFound") {
			return nil, false
		}
		t.Fatal(err)
	}
	properties, err := model.Decode([]byte(*out.ResourceDescription.Properties))
	if err != nil {
		t.Fatal(err)
	}
	return properties, true
}

func create(t *testing.T, s suite.Suite, typeName, name string, forProvider map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": forProvider}}}
	o.SetGroupVersionKind(kindOf(t, typeName))
	o.SetNamespace(s.NS)
	o.SetName(name)
	if _, err := s.Resource(t, o.GroupVersionKind(), s.NS).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create %s %s: %v", typeName, name, err)
	}
}

// awaitSynced waits until a resource is ready and as its generation specifies, and returns it.
func awaitSynced(t *testing.T, s suite.Suite, typeName, name string) (o *unstructured.Unstructured) {
	t.Helper()
	eventually(t, func() error {
		o = s.Get(t, kindOf(t, typeName), s.NS, name)
		at, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if at == o.GetGeneration() && testkit.ConditionStatus(o, resource.Ready) == "True" && testkit.ConditionStatus(o, resource.Synced) == "True" {
			return nil
		}
		return fmt.Errorf("%s %s is not ready and synced: %s %s", typeName, name,
			testkit.ConditionMessage(o, resource.Ready), testkit.ConditionMessage(o, resource.Synced))
	})
	return o
}

func awaitGone(t *testing.T, s suite.Suite, typeName, name string) {
	t.Helper()
	eventually(t, func() error {
		for _, o := range s.List(t, kindOf(t, typeName), s.NS, "") {
			if o.GetName() == name {
				return fmt.Errorf("%s %s still exists: %s", typeName, name, testkit.ConditionMessage(&o, resource.Synced))
			}
		}
		return nil
	})
}

// eventually waits until check returns no error.
func eventually(t *testing.T, check func() error) {
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
		case <-time.After(time.Second):
		}
	}
}

func kindOf(t *testing.T, typeName string) schema.GroupVersionKind {
	t.Helper()
	kind, err := naming.Of(typeName, false)
	if err != nil {
		t.Fatal(err)
	}
	return kind.GroupVersionKind()
}

func identifier(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[resource.ExternalNameAnnotation]
}

func patchOf(t *testing.T, forProvider map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"forProvider": forProvider}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
