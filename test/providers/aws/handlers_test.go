package aws

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/existing"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const (
	docDBClusterType  = "AWS::DocDB::DBCluster"
	docDBInstanceType = "AWS::DocDB::DBInstance"
	accessKeyType     = "AWS::IAM::AccessKey"
	aclEntryType      = "AWS::EC2::NetworkAclEntry"
)

// newHandlers returns a Suite in which the types with handlers are served: their calls do not go through the Cloud
// Control API of the test cloud.
func newHandlers(t *testing.T) suite.Suite {
	t.Helper()
	s := newSuite(t)
	var groups []string
	for _, name := range hook.Handled() {
		groups = append(groups, kindOf(t, name).Group)
	}
	slices.Sort(groups)
	s.AllowComposing(t, slices.Compact(groups)...)
	s.Apply(t, `
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: handlers}
spec: {types: ["`+strings.Join(hook.Handled(), `", "`)+`"]}
---
apiVersion: aws.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: handlers}
spec:
  region: `+awscloud.DefaultRegion+`
  credentials: {source: Secret, secretRef: {name: aws, namespace: default}}
  endpoint: {url: "`+strict()+`"}
  allow: [ForeignResources]
`)
	s.AwaitReady(t, activationKind, "", "handlers")
	return s
}

// aroundBoolean is white space around a boolean in XML.
var aroundBoolean = regexp.MustCompile(`>\s+(true|false)\s+<`)

// strict returns the endpoint of a proxy for the test cloud, which runs as long as the tests. The implementation puts
// white space around booleans of instances of DocumentDB; AWS does not, and the SDK accepts none.
var strict = sync.OnceValue(func() string {
	target, err := url.Parse(cloud.Endpoint)
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept-Encoding", "identity")
		},
		ModifyResponse: func(r *http.Response) error {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			raw = aroundBoolean.ReplaceAll(raw, []byte(">$1<"))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
			return nil
		},
	}).URL
})

// withStrict has a resource use the endpoint strict.
func withStrict(o *unstructured.Unstructured) {
	o.Object["spec"].(map[string]any)["providerConfigRef"] = map[string]any{"kind": "ClusterProviderConfig", "name": "handlers"}
}

// nativeText returns the texts at a path in the answer of a native API; empty if what it is about does not exist.
func nativeText(t *testing.T, service, action string, parameters map[string]string, path ...string) string {
	t.Helper()
	text, err := cloud.Native(t.Context(), service, action, parameters, path...)
	if err != nil && !strings.Contains(err.Error(), "NotFound") && !strings.Contains(err.Error(), "NoSuchEntity") {
		t.Fatal(err)
	}
	return text
}

func awaitText(t *testing.T, want string, get func() string) {
	t.Helper()
	await(t, func() error {
		if got := get(); got != want {
			return fmt.Errorf("it is %q, not %q", got, want)
		}
		return nil
	})
}

// connectionOf returns the connection secret of a resource.
func connectionOf(t *testing.T, s suite.Suite, name, key string) map[string]string {
	t.Helper()
	secret := s.Await(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, s.NS, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("the Secret %s does not exist", name)
		}
		if value, _, _ := unstructured.NestedString(o.Object, "data", key); value == "" {
			return fmt.Errorf("the Secret %s has no %s", name, key)
		}
		return nil
	})
	out := map[string]string{}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for key, value := range data {
		raw, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		out[key] = string(raw)
	}
	return out
}

func withConnection(name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["spec"].(map[string]any)["writeConnectionSecretToRef"] = map[string]any{"name": name}
	}
}

// TestDocDBLives has a cluster of DocumentDB with an instance live, judged by the API of RDS: they are created with a
// password of a Secret, changed, set back after a change behind the controllers' backs, and deleted in order.
func TestDocDBLives(t *testing.T) {
	s := newHandlers(t)
	name := "docdb-" + s.NS
	ofCluster, ofInstance := map[string]string{"DBClusterIdentifier": name}, map[string]string{"DBInstanceIdentifier": name}
	cluster := func(path ...string) string {
		return nativeText(t, "rds", "DescribeDBClusters", ofCluster, append([]string{"DescribeDBClustersResult", "DBClusters", "DBCluster"}, path...)...)
	}
	instance := func(path ...string) string {
		return nativeText(t, "rds", "DescribeDBInstances", ofInstance, append([]string{"DescribeDBInstancesResult", "DBInstances", "DBInstance"}, path...)...)
	}

	wanted := map[string]any{"MasterUsername": "root", "MasterUserPassword": "correct-horse-battery", "PreferredBackupWindow": "02:00-03:00", "Tags": []any{map[string]any{"Key": "team", "Value": "a"}}}
	create(t, s, docDBClusterType, name, wanted, withConnection("conn"), withStrict)
	create(t, s, docDBInstanceType, name, map[string]any{"DBClusterIdentifierRef": map[string]any{"name": name}, "DBInstanceClass": "db.t4g.medium"}, withStrict)
	if id := identifier(awaitSynced(t, s, docDBClusterType, name)); id != name || cluster("Engine") != "docdb" || cluster("PreferredBackupWindow") != "02:00-03:00" {
		t.Fatalf("the cluster is %s, with the engine %q and the window %q", id, cluster("Engine"), cluster("PreferredBackupWindow"))
	}
	awaitSynced(t, s, docDBInstanceType, name)
	if instance("DBClusterIdentifier") != name || instance("DBInstanceClass") != "db.t4g.medium" {
		t.Errorf("the instance is of the cluster %q, with the class %q", instance("DBClusterIdentifier"), instance("DBInstanceClass"))
	}
	if got := connectionOf(t, s, "conn", "endpoint"); got["endpoint"] != cluster("Endpoint") || got["username"] != "root" || got["port"] != "27017" || strings.Contains(fmt.Sprint(got), "correct-horse") {
		t.Errorf("the connection secret has %v", got)
	}

	wanted = maps.Clone(wanted)
	wanted["PreferredBackupWindow"] = "04:00-05:00"
	change(t, s, docDBClusterType, name, wanted)
	change(t, s, docDBInstanceType, name, map[string]any{"DBClusterIdentifierRef": map[string]any{"name": name}, "DBInstanceClass": "db.r6g.large"})
	awaitText(t, "04:00-05:00", func() string { return cluster("PreferredBackupWindow") })
	awaitText(t, "db.r6g.large", func() string { return instance("DBInstanceClass") })
	behind := map[string]string{"DBClusterIdentifier": name, "PreferredBackupWindow": "06:00-07:00", "ApplyImmediately": "true"}
	if _, err := cloud.Native(context.WithoutCancel(t.Context()), "rds", "ModifyDBCluster", behind); err != nil {
		t.Fatal(err)
	}
	awaitText(t, "04:00-05:00", func() string { return cluster("PreferredBackupWindow") })
	awaitSynced(t, s, docDBClusterType, name)

	// The cluster waits for its instance.
	s.Delete(t, kindOf(t, docDBClusterType), s.NS, name)
	s.Await(t, kindOf(t, docDBClusterType), s.NS, name, suite.HasCondition(resource.Synced, "False", resource.ReconcileError, "still contains"))
	s.Delete(t, kindOf(t, docDBInstanceType), s.NS, name)
	s.AwaitGone(t, kindOf(t, docDBInstanceType), s.NS, name)
	s.AwaitGone(t, kindOf(t, docDBClusterType), s.NS, name)
	if left := cluster("DBClusterArn") + instance("DBInstanceArn"); left != "" {
		t.Errorf("after the deletion there is %s", left)
	}
}

// TestImportOfATypeWithAHandler imports a cluster of DocumentDB that others have created, by listing all: it is observed, and
// then managed, without being changed.
func TestImportOfATypeWithAHandler(t *testing.T) {
	s := newHandlers(t)
	name := "foreign-" + s.NS
	parameters := map[string]string{"DBClusterIdentifier": name, "Engine": "docdb", "MasterUsername": "root", "MasterUserPassword": "correct-horse-battery", "PreferredBackupWindow": "02:00-03:00"}
	if _, err := cloud.Native(t.Context(), "rds", "CreateDBCluster", parameters); err != nil {
		t.Fatal(err)
	}
	// The call of a change that is not made would set the password, or fail.
	for _, full := range []bool{false, true} {
		r := existing.Reader{Config: cloud.Config(), Types: catalog.Get, Limit: 1000}
		found, err := r.Read(t.Context(), existing.Selection{Type: docDBClusterType})
		if err != nil {
			t.Fatal(err)
		}
		found = slices.DeleteFunc(found, func(r manifest.Resource) bool { return r.Identifier != name })
		result, err := manifest.For(found, manifest.Options{Namespace: s.NS, Full: full})
		if err != nil || len(result.Objects) != 1 {
			t.Fatalf("the import has %d objects: %v", len(result.Objects), err)
		}
		if window := field(result.Objects[0], "forProvider", "PreferredBackupWindow"); full && window != "02:00-03:00" {
			t.Errorf("the window is %v", window)
		}
		result.Objects[0].Object["spec"].(map[string]any)["providerConfigRef"] = map[string]any{"kind": "ClusterProviderConfig", "name": "handlers"}
		if _, err := s.TryApply(t, result.Objects[0]); err != nil {
			t.Fatal(err)
		}
		if got := identifier(awaitSynced(t, s, docDBClusterType, result.Objects[0].GetName())); got != name {
			t.Errorf("it is %s", got)
		}
		if full {
			orphan(t, s, result.Objects)
		}
	}
	window := nativeText(t, "rds", "DescribeDBClusters", map[string]string{"DBClusterIdentifier": name}, "DescribeDBClustersResult", "DBClusters", "DBCluster", "PreferredBackupWindow")
	if window != "02:00-03:00" {
		t.Errorf("the import has changed the window to %s", window)
	}
}

// TestAccessKeysLive has an access key live, judged by IAM.
func TestAccessKeysLive(t *testing.T) {
	s := newHandlers(t)
	user := "user-" + s.NS
	ofUser := map[string]string{"UserName": user}
	if _, err := cloud.Native(t.Context(), "iam", "CreateUser", ofUser); err != nil {
		t.Fatal(err)
	}
	key := func(name string) string {
		return nativeText(t, "iam", "ListAccessKeys", ofUser, "ListAccessKeysResult", "AccessKeyMetadata", "member", name)
	}
	create(t, s, accessKeyType, "key", map[string]any{"UserName": user}, withConnection("conn"))
	id := identifier(awaitSynced(t, s, accessKeyType, "key"))
	if got := connectionOf(t, s, "conn", "accessKeyId"); id != user+"|"+key("AccessKeyId") || got["accessKeyId"] != key("AccessKeyId") || got["secretAccessKey"] == "" {
		t.Errorf("the key is %s, and IAM has %q", id, key("AccessKeyId"))
	}
	change(t, s, accessKeyType, "key", map[string]any{"UserName": user, "Status": "Inactive"})
	awaitText(t, "Inactive", func() string { return key("Status") })
	s.Delete(t, kindOf(t, accessKeyType), s.NS, "key")
	s.AwaitGone(t, kindOf(t, accessKeyType), s.NS, "key")
	if left := key("AccessKeyId"); left != "" {
		t.Errorf("after the deletion there is %s", left)
	}
}

// TestEKSVersionsChangeStepByStep has a cluster whose version is to be two minor versions later: it gets both, one after the
// other.
func TestEKSVersionsChangeStepByStep(t *testing.T) {
	s := newSuite(t)
	lives := awscloud.Lives()
	life := lives[slices.IndexFunc(lives, func(l awscloud.Life) bool { return l.Type == clusterType })]
	wanted := awscloud.Resolve(life.Create, createNeeds(t, s, life))
	create(t, s, clusterType, "stepped", wanted)
	id := identifier(awaitSynced(t, s, clusterType, "stepped"))
	version := func() string {
		is := native(t, clusterType, id)
		return fmt.Sprint(is["Version"])
	}
	if got := version(); got != "1.30" {
		t.Fatalf("the version is %s", got)
	}
	before := calls(awscloud.UpdateResource, clusterType, id)
	wanted = maps.Clone(wanted)
	wanted["Version"] = "1.32"
	change(t, s, clusterType, "stepped", wanted)
	awaitSynced(t, s, clusterType, "stepped")
	if n := calls(awscloud.UpdateResource, clusterType, id) - before; n != 2 || version() != "1.32" {
		t.Errorf("after %d updates, the version is %s", n, version())
	}
	wanted["Version"] = "1.31"
	change(t, s, clusterType, "stepped", wanted)
	s.Await(t, kindOf(t, clusterType), s.NS, "stepped", suite.HasCondition(resource.Synced, "False", resource.ReconcileError, "from 1.32 back to 1.31"))
	if version() != "1.32" {
		t.Errorf("the version is %s", version())
	}
	s.Delete(t, kindOf(t, clusterType), s.NS, "stepped")
	s.AwaitGone(t, kindOf(t, clusterType), s.NS, "stepped")
	deleteNeeds(t, s, life)
}
