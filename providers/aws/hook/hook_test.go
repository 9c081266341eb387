package hook

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	numbers "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
	"github.com/espalier-dev/espalier/providers/aws/policy"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func TestHooksAreOfKnownTypes(t *testing.T) {
	for _, name := range Types() {
		h := For(name)
		if !catalog.Has(name) && h.Handler == nil {
			t.Errorf("%s is neither in the catalog nor has it a handler", name)
		}
		if (h.BeforeDelete != nil || h.ReadMany != nil || h.ReadConnection != nil) && len(policy.OfHooks(name)) == 0 && h.Handler == nil {
			t.Errorf("%s makes requests and needs no permissions", name)
		}
	}
	if !slices.Equal(Handled(), schema.Names()) {
		t.Errorf("there are handlers of %q, and schemas of %q", Handled(), schema.Names())
	}
	for _, name := range schema.Names() {
		typ, err := schema.Get(name)
		if err != nil || typ == nil || typ.Name != name {
			t.Fatalf("%s: %v, %v", name, typ, err)
		}
		for verb, handler := range typ.Handlers {
			if len(handler.Permissions) == 0 {
				t.Errorf("%s: the schema has no permissions to %s", name, verb)
			}
		}
		if len(typ.Handlers) != 5 {
			t.Errorf("%s: the schema has the verbs %v", name, typ.Handlers)
		}
	}
	if h := For("AWS::Test::Nothing"); h.Connection != nil || h.Handler != nil {
		t.Error("an unknown type has hooks")
	}
}

func properties(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := numbers.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConnectionDetailsComeFromProperties(t *testing.T) {
	for name, tc := range map[string]struct{ typ, properties, want string }{
		"an instance": {
			"AWS::RDS::DBInstance", `{"Endpoint":{"Address":"db.example.org","Port":"5432"},"MasterUsername":"admin","DBName":"app","MasterUserPassword":"p","MasterUserSecret":{"SecretArn":"arn:1"}}`,
			"database=app endpoint=db.example.org port=5432 secretArn=arn:1 username=admin",
		},
		"an instance that is being created": {"AWS::RDS::DBInstance", `{"MasterUsername":"admin"}`, "username=admin"},
		"a cluster": {
			"AWS::RDS::DBCluster", `{"Endpoint":{"Address":"w","Port":5432},"ReadEndpoint":{"Address":"r"},"MasterUsername":"admin","DatabaseName":"app"}`,
			"database=app endpoint=w port=5432 readerEndpoint=r username=admin",
		},
		"a cluster of caches":     {"AWS::ElastiCache::ReplicationGroup", `{"ConfigurationEndPoint":{"Address":"c","Port":"6379"},"PrimaryEndPoint":{"Address":"p"},"TransitEncryptionEnabled":true}`, "endpoint=c port=6379 tls=true"},
		"a primary and a replica": {"AWS::ElastiCache::ReplicationGroup", `{"PrimaryEndPoint":{"Address":"p","Port":"1"},"ReaderEndPoint":{"Address":"r","Port":"2"}}`, "endpoint=p port=1 readerEndpoint=r readerPort=2"},
		"a Memcached":             {"AWS::ElastiCache::CacheCluster", `{"ConfigurationEndpoint":{"Address":"m","Port":"11211"}}`, "endpoint=m port=11211"},
		"a domain in a VPC":       {"AWS::OpenSearchService::Domain", `{"Arn":"arn:1","DomainEndpoints":{"vpc":"v"}}`, "arn=arn:1 endpoint=v port=443"},
		"a broker":                {"AWS::AmazonMQ::Broker", `{"AmqpEndpoints":["amqps://a:5671","amqps://b:5671"],"ConsoleURLs":[]}`, "amqpEndpoint=amqps://a:5671"},
		"a warehouse":             {"AWS::Redshift::Cluster", `{"Endpoint":{"Address":"r","Port":"5439"},"MasterUsername":"u","DBName":"dev","MasterUserPassword":"p"}`, "database=dev endpoint=r port=5439 username=u"},
		"a secret":                {"AWS::SecretsManager::Secret", `{"Id":"arn:1","SecretString":"s"}`, "arn=arn:1"},
		"a queue":                 {"AWS::SQS::Queue", `{"QueueUrl":"https://q","Arn":"arn:1"}`, "arn=arn:1 endpoint=https://q"},
		"a bucket":                {"AWS::S3::Bucket", `{"BucketName":"b","RegionalDomainName":"b.s3","Arn":"arn:1"}`, "arn=arn:1 bucket=b endpoint=b.s3 region=eu-central-1"},
		"a value of another type": {"AWS::SNS::Topic", `{"TopicArn":["a"]}`, ""},
	} {
		got := For(tc.typ).Connection(Target{Resource: Resource{Properties: properties(t, tc.properties)}, Region: "eu-central-1"})
		var pairs []string
		for key, value := range got {
			pairs = append(pairs, key+"="+string(value))
		}
		slices.Sort(pairs)
		if text := strings.Join(pairs, " "); text != tc.want {
			t.Errorf("%s: got %s", name, text)
		}
	}
}

// connectionKeys are the keys of the connection secrets of types if all properties of the schema have a value. A
// type that is not here is in another test.
var connectionKeys = map[string]string{
	"AWS::DSQL::Cluster":                    "endpoint",
	"AWS::DocDB::DBCluster":                 "endpoint port readerEndpoint secretArn username",
	"AWS::DocDB::DBInstance":                "endpoint port",
	"AWS::DocDBElastic::Cluster":            "endpoint username",
	"AWS::ECR::Repository":                  "arn endpoint",
	"AWS::ElastiCache::CacheCluster":        "endpoint port",
	"AWS::ElastiCache::ReplicationGroup":    "endpoint port tls",
	"AWS::ElastiCache::ServerlessCache":     "endpoint port readerEndpoint readerPort",
	"AWS::MSK::Cluster":                     "arn",
	"AWS::MSK::ServerlessCluster":           "arn",
	"AWS::MemoryDB::Cluster":                "endpoint port tls",
	"AWS::Neptune::DBCluster":               "endpoint port readerEndpoint",
	"AWS::Neptune::DBInstance":              "endpoint port",
	"AWS::NeptuneGraph::Graph":              "endpoint",
	"AWS::OpenSearchServerless::Collection": "arn endpoint",
	"AWS::RDS::DBCluster":                   "database endpoint port readerEndpoint secretArn username",
	"AWS::RDS::DBClusterEndpoint":           "endpoint",
	"AWS::RDS::DBInstance":                  "database endpoint port secretArn username",
	"AWS::RDS::DBProxy":                     "endpoint",
	"AWS::RDS::DBProxyEndpoint":             "endpoint",
	"AWS::RDS::DBShardGroup":                "endpoint",
	"AWS::RDS::GlobalCluster":               "endpoint",
	"AWS::Redshift::Cluster":                "database endpoint port secretArn username",
	"AWS::Redshift::EndpointAccess":         "endpoint port",
	"AWS::RedshiftServerless::Workgroup":    "endpoint port",
	"AWS::S3::Bucket":                       "arn bucket endpoint region",
	"AWS::SNS::Topic":                       "arn",
	"AWS::SQS::Queue":                       "arn endpoint",
	"AWS::SecretsManager::Secret":           "arn",
	"AWS::Timestream::InfluxDBCluster":      "endpoint port readerEndpoint secretArn",
	"AWS::Timestream::InfluxDBInstance":     "endpoint port secretArn",
}

// filled returns a value for each property of a schema, down to some depth.
func filled(typ *resourcetype.Type, s *resourcetype.Schema, depth int) any {
	s = typ.Resolve(s)
	switch {
	case s == nil || depth == 0:
		return nil
	case len(s.Properties) > 0:
		out := map[string]any{}
		for name, property := range s.Properties {
			out[name] = filled(typ, property, depth-1)
		}
		return out
	case slices.Contains(s.Types, "array"):
		return nil
	case slices.Contains(s.Types, "boolean"):
		return true
	case slices.Contains(s.Types, "object"):
		return map[string]any{}
	}
	return "1"
}

func TestConnectionDetailsAreOfPropertiesInTheSchema(t *testing.T) {
	elsewhere := []string{"AWS::AmazonMQ::Broker", "AWS::EKS::Cluster", "AWS::OpenSearchService::Domain"}
	for _, name := range Types() {
		connection := For(name).Connection
		if connection == nil || slices.Contains(elsewhere, name) {
			continue
		}
		typ, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := filled(typ, &typ.Schema, 5).(map[string]any)
		keys := slices.Sorted(maps.Keys(connection(Target{Resource: Resource{Properties: all}, Region: "eu-central-1"})))
		if got := strings.Join(keys, " "); got != connectionKeys[name] {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAKubeconfigGetsItsTokenByTheAWSCLI(t *testing.T) {
	target := Target{Region: "eu-central-1", Resource: Resource{Identifier: "prod", Properties: map[string]any{"Endpoint": "https://c.eks.example.org", "CertificateAuthorityData": "Y2VydA=="}}}
	got := clusterConnection(target)
	if string(got["clusterCA"]) != "cert" || string(got["endpoint"]) != "https://c.eks.example.org" || string(got["region"]) != "eu-central-1" {
		t.Errorf("got %q", got)
	}
	var config struct {
		Clusters []struct {
			Cluster map[string]string
		}
		Users []struct {
			User struct {
				Exec struct {
					APIVersion, Command, InteractiveMode string
					Args                                 []string
				}
			}
		}
	}
	if err := json.Unmarshal(got["kubeconfig"], &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"server": "https://c.eks.example.org", "certificate-authority-data": "Y2VydA=="}
	if diff := cmp.Diff(want, config.Clusters[0].Cluster); diff != "" {
		t.Error(diff)
	}
	exec := config.Users[0].User.Exec
	if exec.Command != "aws" || exec.InteractiveMode != "Never" || strings.Join(exec.Args, " ") != "eks get-token --cluster-name prod --region eu-central-1 --output json" {
		t.Errorf("got %+v", exec)
	}
	if string(clusterConnection(target)["kubeconfig"]) != string(got["kubeconfig"]) {
		t.Error("the kubeconfig is another one each time")
	}
	target.Properties = map[string]any{"Endpoint": "https://c.eks.example.org"}
	if got := clusterConnection(target); got != nil {
		t.Errorf("a cluster that is being created has details %q", got)
	}
}
