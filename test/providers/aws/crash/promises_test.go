package crash

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/canary"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestPasswordsStayInTheirSecret creates and changes a database with a password, with lost answers and a crash, and
// searches for the password in all objects and logs.
func TestPasswordsStayInTheirSecret(t *testing.T) {
	p := newPlane(t)
	var logs buffer
	p.change = func(o *server.Options) {
		o.Log = funcr.New(func(prefix, args string) { logs.add(prefix + " " + args) }, funcr.Options{Verbosity: 4})
	}
	db := members[7]
	kind := kindOf(t, db.typ)
	ns := testkit.Namespace(t, p.config)
	encoded := base64.StdEncoding.EncodeToString([]byte(canary.Value))
	p.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: "+ns+"}\ndata: {password: "+encoded+"}\n")
	cloud.Inject(awscloud.Fault{Type: db.typ, Operation: awscloud.CreateResource, Error: &awscloud.Error{Code: "InvalidRequestException", Message: "MasterUserPassword " + canary.Value + " is bad"}})
	crash := crashAt(awscloud.CreateResource, 2)
	var stored []string
	find := func() {
		t.Helper()
		for _, gvk := range []schema.GroupVersionKind{bindingKind, kind, {Group: "events.k8s.io", Version: "v1", Kind: "Event"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}} {
			for _, o := range p.List(t, gvk, "", "") {
				if gvk.Kind == "Secret" && o.GetName() == "db" && o.GetNamespace() == ns {
					continue
				}
				text := testkit.JSON(&o)
				if at := canary.Find(text); at != "" {
					t.Errorf("%s %s has the password: %s", gvk.Kind, o.GetName(), at)
				}
				if gvk.Kind != espalierBinding {
					continue
				}
				if of, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "namespace"); of == ns {
					request, _, _ := unstructured.NestedString(o.Object, "spec", "operation", "request")
					raw, err := base64.StdEncoding.DecodeString(request)
					if err != nil {
						raw = []byte(request)
					}
					if at := canary.Find(string(raw)); at != "" {
						t.Errorf("the stored request has the password: %s", at)
					}
					stored = append(stored, string(raw)+text)
				}
			}
		}
	}
	stop := p.start(t, crash.Wrap(p.config))
	defer func() { stop() }()
	p.Apply(t, db.manifest(t, ns))
	<-crash.Crashed()
	find()
	stop()
	if text := strings.Join(stored, "\n"); !strings.Contains(text, "/desired/MasterUserPassword") {
		t.Errorf("the stored request has no reference to the Secret: %s", text)
	}
	stop = p.start(t, p.config)
	o := p.Await(t, kind, ns, db.name, isSynced(1))
	find()
	testkit.Poll(t, "AWS gets the password", func() bool { return cloud.Sent(db.typ, identifier(o))["MasterUserPassword"] == canary.Value })
	p.Patch(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, ns, "db", `{"stringData":{"password":"`+canary.Value+`-2"}}`)
	p.annotate(t, db.typ, ns, db.name, "crossplane.io/reconcile-requested-at", "now")
	testkit.Poll(t, "the changed password is sent", func() bool { return cloud.Sent(db.typ, identifier(o))["MasterUserPassword"] == canary.Value+"-2" })
	p.Await(t, kind, ns, db.name, isSynced(1))
	find()
	p.deleteAll(t, ns, db)
	find()
	if at := canary.Find(logs.String()); at != "" {
		t.Errorf("the logs have the password: %s", at)
	}
}

const espalierBinding = "Binding"

// buffer is text that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.WriteString(line + "\n")
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// native calls an action of EC2's own API.
func native(t *testing.T, action string, parameters map[string]string, path ...string) string {
	t.Helper()
	out, err := cloud.Native(t.Context(), "ec2", action, parameters, path...)
	if err != nil || len(path) > 0 && out == "" {
		t.Fatalf("%s: %q, %v", action, out, err)
	}
	return out
}

// TestADependencyBlocksADeletion deletes a VPC that has a subnet of somebody else: the VPC and the instance
// above say so, and the deletion continues by itself when the subnet is gone.
func TestADependencyBlocksADeletion(t *testing.T) {
	p := newPlane(t)
	stop := p.start(t, p.config)
	defer func() { stop() }()
	vpc := kindOf(t, "AWS::EC2::VPC")
	ns, group := testkit.Namespace(t, p.config), testkit.Group(t)
	definition := testkit.Parse(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: net-%s}
spec:
  schema: {apiVersion: v1alpha1, kind: Net, group: %s}
  resources:
    - id: vpc
      template: {apiVersion: %s, kind: VPC, metadata: {name: "${schema.metadata.name}"}, spec: {forProvider: {CidrBlock: 10.90.0.0/16}}}
`, ns, group, vpc.GroupVersion()))[0]
	if _, err := p.TryApply(t, definition); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady(t, definition.GroupVersionKind(), "", "net-"+ns)
	net := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Net"}
	p.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Net\nmetadata: {name: main, namespace: %s}\n", group, ns))
	id := identifier(p.Await(t, vpc, ns, "main", isSynced(1)))
	subnet := native(t, "CreateSubnet", map[string]string{"VpcId": id, "CidrBlock": "10.90.1.0/24"}, "subnet", "subnetId")
	p.Delete(t, net, ns, "main")
	p.Await(t, vpc, ns, "main", func(o *unstructured.Unstructured) error {
		if err := suite.IsPresent(o); err != nil {
			return err
		}
		if message := testkit.ConditionMessage(o, resource.Synced); !strings.Contains(message, "DependencyViolation") && !strings.Contains(message, "dependenc") {
			return fmt.Errorf("does not say what blocks it: %s", message)
		}
		return nil
	})
	p.Await(t, net, ns, "main", func(o *unstructured.Unstructured) error {
		if err := suite.IsPresent(o); err != nil {
			return err
		}
		if text := testkit.JSON(o); !strings.Contains(text, "dependenc") && !strings.Contains(text, "DependencyViolation") {
			return fmt.Errorf("does not say what blocks it")
		}
		return nil
	})
	if found, err := cloud.Describe(t.Context(), "AWS::EC2::VPC", id); err != nil || found == nil {
		t.Fatalf("the VPC is gone: %v", err)
	}
	native(t, "DeleteSubnet", map[string]string{"SubnetId": subnet})
	p.AwaitGone(t, net, ns, "main")
	p.AwaitGone(t, vpc, ns, "main")
	if found, err := cloud.Describe(t.Context(), "AWS::EC2::VPC", id); err != nil || found != nil {
		t.Errorf("the VPC exists: %v", err)
	}
}
