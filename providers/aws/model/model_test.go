package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// generator makes random desired states of a type.
type generator struct {
	*rand.Rand
	t     *resourcetype.Type
	depth int
}

func (g generator) value(s *resourcetype.Schema, name string) any {
	s = g.t.Resolve(s)
	if s == nil || g.depth > 5 {
		return nil
	}
	g.depth++
	for _, branches := range [][]*resourcetype.Schema{s.OneOf, s.AnyOf} {
		if len(branches) > 0 && len(s.Properties) == 0 {
			return g.value(branches[g.IntN(len(branches))], name)
		}
	}
	if len(s.Enum) > 0 {
		var v any
		_ = json.Unmarshal(s.Enum[g.IntN(len(s.Enum))], &v)
		return v
	}
	switch {
	case s.Items != nil:
		out := []any{}
		for range g.IntN(3) + 1 {
			if item := g.value(s.Items, name); item != nil {
				out = append(out, item)
			}
		}
		return out
	case len(s.Properties) > 0:
		out := map[string]any{}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			if g.IntN(3) > 0 {
				continue
			}
			if v := g.value(s.Properties[field], field); v != nil {
				out[field] = v
			}
		}
		return out
	case len(s.PatternProperties) > 0:
		first := slices.Sorted(maps.Keys(s.PatternProperties))[0]
		v := g.value(s.PatternProperties[first], name)
		if v == nil {
			return nil
		}
		return map[string]any{"key~with/slash": v}
	case len(s.Types) == 0:
		return nil
	}
	switch s.Types[g.IntN(len(s.Types))] {
	case "string":
		return fmt.Sprintf("%s-%d", name, g.IntN(100))
	case "integer", "number":
		return int64(g.IntN(1000) + 1)
	case "boolean":
		return g.IntN(2) == 0
	case "object":
		return map[string]any{"Statement": []any{map[string]any{"Action": fmt.Sprint(g.IntN(100))}}}
	}
	return nil
}

func (g generator) state() map[string]any {
	raw := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(g.t.Properties)) {
		if g.IntN(2) == 0 {
			if v := g.value(g.t.Properties[name], name); v != nil {
				raw[name] = v
			}
		}
	}
	return roundTrip(model.Desired(g.t, raw, nil))
}

func roundTrip(value map[string]any) map[string]any {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	out, err := model.Decode(raw)
	if err != nil {
		panic(err)
	}
	return out
}

// TestPatchesCorrectAllDifferences applies the patch between two random states of each type. The result
// compares equal, except for what can only be set at creation, which no patch touches.
func TestPatchesCorrectAllDifferences(t *testing.T) {
	patches, operations := 0, 0
	seed, _ := strconv.ParseUint(os.Getenv("ESPALIER_TEST_SEED"), 10, 64) // 0 by default
	for i, name := range catalog.Names() {
		if testing.Short() && i%10 > 0 {
			continue
		}
		typ, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := typ.Handlers[resourcetype.Update]; !ok {
			continue
		}
		g := generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), t: typ}
		for range 4 {
			wanted, read := g.state(), g.state()
			c := model.Compare(typ, wanted, read)
			ops := model.Patch(typ, c, wanted, read)
			patches, operations = patches+1, operations+len(ops)
			result := apply(t, read, ops)
			after := model.Compare(typ, wanted, result)
			for _, d := range after.Differences {
				if !d.CreateOnly {
					t.Fatalf("%s: after the patch %s, %s\nwanted %s\nread   %s\nresult %s", name, text(ops), after, text(wanted), text(read), text(result))
				}
			}
			for _, path := range typ.CreateOnlyProperties {
				if was, is := text(lookup(read, path)), text(lookup(result, path)); was != is && !through(path) && was != "null" {
					t.Fatalf("%s: the patch %s changes %s, which is create-only, from %s to %s", name, text(ops), path, was, is)
				}
			}
			if again := model.Compare(typ, wanted, wanted); len(again.Differences) > 0 {
				t.Fatalf("%s: a state differs from itself: %s", name, again)
			}
		}
	}
	t.Logf("%d patches with %d operations", patches, operations)
}

func through(path resourcetype.Path) bool {
	for _, name := range path {
		if name == resourcetype.Any {
			return true
		}
	}
	return false
}

func lookup(value any, path resourcetype.Path) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func text(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func apply(t *testing.T, document map[string]any, ops []model.Operation) map[string]any {
	t.Helper()
	if len(ops) == 0 {
		return document
	}
	patch, err := jsonpatch.DecodePatch([]byte(text(ops)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := patch.Apply([]byte(text(document)))
	if err != nil {
		t.Fatalf("apply %s to %s: %v", text(ops), text(document), err)
	}
	out, err := model.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func typeOf(t *testing.T, name string) *resourcetype.Type {
	t.Helper()
	typ, err := catalog.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func object(t *testing.T, raw string) map[string]any {
	t.Helper()
	out, err := model.Decode([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// desired is an object with a model.SecretRef for each {"$secret": …}.
func desired(t *testing.T, raw string) map[string]any {
	t.Helper()
	return withRefs(object(t, raw)).(map[string]any)
}

func withRefs(value any) any {
	object, _ := value.(map[string]any)
	for key, item := range object {
		object[key] = withRefs(item)
	}
	if ref, ok := object["$secret"].(map[string]any); ok {
		field := func(key string) string { text, _ := ref[key].(string); return text }
		return model.SecretRef{Name: field("name"), Key: field("key"), ResourceVersion: field("resourceVersion")}
	}
	return value
}

// TestNoObjectIsTakenForASecretRef has objects of users in the form of a SecretRef in digests.
func TestNoObjectIsTakenForASecretRef(t *testing.T) {
	job := typeOf(t, "AWS::Glue::Job")
	out := model.Desired(job, object(t, `{"DefaultArguments":{"--x":{"$secret":{"name":"db","key":"password"}}}}`), nil)
	if model.HasSecretRef(out) || text(out) != `{"DefaultArguments":{"--x":{"$secret":{"key":"password","name":"db"}}}}` {
		t.Errorf("the desired state is %s", text(out))
	}
	out = model.Desired(job, object(t, `{"DescriptionSecretRef":{"name":"db","key":"password"}}`), nil)
	if model.HasSecretRef(out) {
		t.Errorf("a property that AWS returns comes from a Secret: %s", text(out))
	}
}

func TestSetAt(t *testing.T) {
	for pointer, want := range map[string]string{
		"/a/b~1c": `{"a":{"b/c":"x","l":[{"d":null}]}}`, "/a/l/0/d": `{"a":{"b/c":null,"l":[{"d":"x"}]}}`,
		"/a/l/1/d": "", "/a/l/-1/d": "", "/n/b": "", "": "", "a": "",
	} {
		document := object(t, `{"a":{"b/c":null,"l":[{"d":null}]}}`)
		if err := model.SetAt(document, pointer, "x"); err != nil != (want == "") || want != "" && text(document) != want {
			t.Errorf("%s: %v, %s", pointer, err, text(document))
		}
	}
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct{ typ, wanted, read, want string }{
		"a property that is unset in the spec is not compared":     {"AWS::EC2::VPC", `{"CidrBlock":"10.0.0.0/16"}`, `{"CidrBlock":"10.0.0.0/16","EnableDnsSupport":true}`, ``},
		"a network is compared without its host bits":              {"AWS::EC2::Subnet", `{"CidrBlock":"10.0.1.7/24"}`, `{"CidrBlock":"10.0.1.0/24"}`, ``},
		"a difference is described":                                {"AWS::EC2::VPC", `{"EnableDnsSupport":true}`, `{"EnableDnsSupport":false}`, `EnableDnsSupport is false, and should be true`},
		"a number may be a string":                                 {"AWS::RDS::DBInstance", `{"AllocatedStorage":20,"Port":5432}`, `{"AllocatedStorage":"20","Port":"5432"}`, ``},
		"versions are not numbers":                                 {"AWS::EKS::Cluster", `{"Version":"1.30"}`, `{"Version":"1.3"}`, `Version is "1.3", and should be "1.30"`},
		"AWS leaves false and empty values out":                    {"AWS::EC2::Subnet", `{"MapPublicIpOnLaunch":false,"Tags":[]}`, `{}`, ``},
		"the order of tags has no meaning":                         {"AWS::EC2::VPC", `{"Tags":[{"Key":"a","Value":"1"},{"Key":"b","Value":"2"}]}`, `{"Tags":[{"Key":"b","Value":"2"},{"Key":"aws:x","Value":"y"},{"Key":"espalier.dev/binding","Value":"z"},{"Key":"a","Value":"1"}]}`, ``},
		"a tag of somebody else is a difference":                   {"AWS::EC2::VPC", `{"Tags":[]}`, `{"Tags":[{"Key":"b","Value":"2"}]}`, `Tags is [{"Key":"b","Value":"2"}], and should be []`},
		"a policy in a string is the same as an object":            {"AWS::IAM::Role", `{"AssumeRolePolicyDocument":{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sts:AssumeRole"],"Principal":{"Service":["b","a"]}}]}}`, `{"AssumeRolePolicyDocument":"{\"Statement\":[{\"Action\":\"sts:AssumeRole\",\"Effect\":\"Allow\",\"Principal\":{\"Service\":[\"a\",\"b\"]}}],\"Version\":\"2012-10-17\"}"}`, ``},
		"a list whose order has no meaning":                        {"AWS::IAM::Role", `{"ManagedPolicyArns":["b","a"]}`, `{"ManagedPolicyArns":["a","b"]}`, ``},
		"write-only properties are not compared":                   {"AWS::RDS::DBInstance", `{"MasterUserPassword":{"$secret":{"name":"x"}},"ApplyImmediately":true}`, `{}`, ``},
		"AWS stores names in lower case":                           {"AWS::RDS::DBInstance", `{"DBParameterGroupName":"MyGroup","DBSubnetGroupName":"Sub"}`, `{"DBParameterGroupName":"mygroup","DBSubnetGroupName":"sub"}`, ``},
		"a key's id is compared with its ARN":                      {"AWS::RDS::DBCluster", `{"KmsKeyId":"1234"}`, `{"KmsKeyId":"arn:aws:kms:eu-west-1:1:key/1234"}`, ``},
		"a hosted zone's name ends with a dot":                     {"AWS::Route53::HostedZone", `{"Name":"Example.org"}`, `{"Name":"example.org."}`, ``},
		"a create-only property inside an object":                  {"AWS::EKS::Cluster", `{"KubernetesNetworkConfig":{"IpFamily":"ipv6"}}`, `{"KubernetesNetworkConfig":{"IpFamily":"ipv4"}}`, `KubernetesNetworkConfig.IpFamily is "ipv4", and should be "ipv6"`},
		"an item of an ordered list":                               {"AWS::Cognito::UserPoolClient", `{"PreventUserExistenceErrors":"ENABLED"}`, `{"PreventUserExistenceErrors":"LEGACY"}`, `PreventUserExistenceErrors is "LEGACY", and should be "ENABLED"`},
		"the protocol of a rule of a security group by its number": {"AWS::EC2::SecurityGroup", `{"SecurityGroupIngress":[{"IpProtocol":"6","FromPort":80,"ToPort":80,"CidrIp":"0.0.0.0/0"}]}`, `{"SecurityGroupIngress":[{"IpProtocol":"tcp","FromPort":80,"ToPort":80,"CidrIp":"0.0.0.0/0"}]}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			typ := typeOf(t, tc.typ)
			if got := model.Compare(typ, desired(t, tc.wanted), object(t, tc.read)).String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTagsOfOursAreReserved(t *testing.T) {
	for properties, want := range map[string]string{
		`{"Tags":[{"Key":"a","Value":"1"},{"Key":"espalier.dev/owner","Value":"x"}]}`:                        "Tags[1].Key",
		`{"Tags":{"espalier.dev/binding":"x"}}`:                                                              "Tags.espalier.dev/binding",
		`{"FileSystemTags":[{"Key":"espalier.dev/sent","Value":"x"}]}`:                                       "FileSystemTags[0].Key",
		`{"LaunchTemplateData":{"TagSpecifications":[{"Tags":[{"Key":"espalier.dev/owner"}]}]}}`:             "LaunchTemplateData.TagSpecifications[0].Tags[0].Key",
		`{"Tags":[{"Key":"example.org/espalier.dev/owner","Value":"espalier.dev/owner"}]}`:                   "",
		`{"ResourceQuery":{"Query":{"TagFilters":[{"Key":"espalier.dev/owner","Values":["x"]}]}}}`:           "",
		`{"PolicyDetails":{"TargetTags":[{"Key":"espalier.dev/owner"}],"TagsToAdd":[{"Key":"a"}]},"A":null}`: "",
	} {
		if got := model.ReservedTag(object(t, properties)); got != want {
			t.Errorf("%s: got %q, want %q", properties, got, want)
		}
	}
}

func TestPatch(t *testing.T) {
	for name, tc := range map[string]struct{ typ, wanted, read, want string }{
		"one property": {"AWS::EC2::VPC", `{"EnableDnsSupport":true}`, `{"EnableDnsSupport":false}`, `[{"op":"replace","path":"/EnableDnsSupport","value":true}]`},
		"our tags stay": {"AWS::EC2::VPC", `{"Tags":[{"Key":"a","Value":"1"}]}`, `{"Tags":[{"Key":"espalier.dev/binding","Value":"x"},{"Key":"aws:y","Value":"z"}]}`,
			`[{"op":"replace","path":"/Tags","value":[{"Key":"a","Value":"1"},{"Key":"espalier.dev/binding","Value":"x"}]}]`},
		"nobody sets our tags": {"AWS::EC2::VPC", `{"Tags":[{"Key":"a","Value":"1"},{"Key":"espalier.dev/owner","Value":"forged"}]}`, `{}`,
			`[{"op":"add","path":"/Tags","value":[{"Key":"a","Value":"1"}]}]`},
		"a create-only property is not touched": {"AWS::EC2::VPC", `{"CidrBlock":"10.0.0.0/8"}`, `{"CidrBlock":"10.0.0.0/16"}`, `null`},
		"a missing parent is added":             {"AWS::EKS::Cluster", `{"ResourcesVpcConfig":{"EndpointPublicAccess":true}}`, `{}`, `[{"op":"add","path":"/ResourcesVpcConfig","value":{"EndpointPublicAccess":true}}]`},
		"a leaf":                                {"AWS::EKS::Cluster", `{"ResourcesVpcConfig":{"EndpointPublicAccess":true,"SubnetIds":["a"]}}`, `{"ResourcesVpcConfig":{"EndpointPublicAccess":false,"SubnetIds":["a"],"SecurityGroupIds":["x"]}}`, `[{"op":"replace","path":"/ResourcesVpcConfig/EndpointPublicAccess","value":true}]`},
		"write-only values are always sent": {"AWS::RDS::DBInstance", `{"DBInstanceClass":"b","MasterUserPassword":{"$secret":{"name":"p","resourceVersion":"1"}}}`, `{"DBInstanceClass":"a","Tags":[{"Key":"espalier.dev/sent","Value":"0"}]}`,
			`[{"op":"replace","path":"/DBInstanceClass","value":"b"},{"op":"add","path":"/MasterUserPassword","value":{"$secret":{"name":"p","resourceVersion":"1"}}},{"op":"replace","path":"/Tags","value":[{"Key":"espalier.dev/sent","Value":"SENT"}]}]`},
		"a secret that changed is sent": {"AWS::RDS::DBInstance", `{"MasterUserPassword":{"$secret":{"name":"p","resourceVersion":"2"}},"Tags":[{"Key":"a","Value":"b"}]}`, `{"Tags":[{"Key":"a","Value":"b"}]}`,
			`[{"op":"add","path":"/MasterUserPassword","value":{"$secret":{"name":"p","resourceVersion":"2"}}},{"op":"replace","path":"/Tags","value":[{"Key":"a","Value":"b"},{"Key":"espalier.dev/sent","Value":"SENT"}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			typ, wanted, read := typeOf(t, tc.typ), desired(t, tc.wanted), object(t, tc.read)
			got := text(model.Patch(typ, model.Compare(typ, wanted, read), wanted, read))
			if got = regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllString(got, "SENT"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestASentSecretIsNotSentAgain(t *testing.T) {
	typ := typeOf(t, "AWS::RDS::DBInstance")
	wanted := desired(t, `{"MasterUserPassword":{"$secret":{"name":"p","resourceVersion":"1"}}}`)
	result := apply(t, map[string]any{}, model.Patch(typ, model.Compare(typ, wanted, nil), wanted, nil))
	delete(result, "MasterUserPassword")
	if ops := model.Patch(typ, model.Compare(typ, wanted, result), wanted, result); ops != nil {
		t.Errorf("it is sent again: %s", text(ops))
	}
	changed := desired(t, `{"MasterUserPassword":{"$secret":{"name":"p","resourceVersion":"2"}}}`)
	if ops := model.Patch(typ, model.Compare(typ, changed, result), changed, result); ops == nil {
		t.Error("the changed one is not sent")
	}
}

func TestDesired(t *testing.T) {
	for name, tc := range map[string]struct{ typ, forProvider, initProvider, want string }{
		"references, read-only and unknown properties are left out": {"AWS::EC2::Subnet", `{"VpcId":"vpc-1","VpcIdRef":{"name":"x"},"VpcIdSelector":{"matchLabels":{}},"SubnetId":"s","Unknown":1}`, `{}`, `{"VpcId":"vpc-1"}`},
		"initProvider is for unset properties":                      {"AWS::EKS::Cluster", `{"ResourcesVpcConfig":{"SubnetIds":["a"]}}`, `{"ResourcesVpcConfig":{"SubnetIds":["b"],"EndpointPublicAccess":true}}`, `{"ResourcesVpcConfig":{"EndpointPublicAccess":true,"SubnetIds":["a"]}}`},
		"a secret is a placeholder":                                 {"AWS::RDS::DBInstance", `{"MasterUserPasswordSecretRef":{"name":"db","key":"password"}}`, `{}`, `{"MasterUserPassword":{"$secret":{"key":"password","name":"db"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(model.Desired(typeOf(t, tc.typ), object(t, tc.forProvider), object(t, tc.initProvider))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestIdentifier(t *testing.T) {
	for name, tc := range map[string]struct{ typ, properties, want, err string }{
		"the name of the object":      {"AWS::IAM::Role", `{}`, "app", ""},
		"a name that is set":          {"AWS::IAM::Role", `{"RoleName":"r"}`, "r", ""},
		"the last part of a compound": {"AWS::Cognito::UserPoolGroup", `{"UserPoolId":"p"}`, "p|app", ""},
		"a part that has to be set":   {"AWS::Cognito::UserPoolGroup", `{}`, "", "spec.forProvider: UserPoolId must be set, because the identifier of AWS::Cognito::UserPoolGroup consists of UserPoolId|GroupName"},
	} {
		t.Run(name, func(t *testing.T) {
			typ := typeOf(t, tc.typ)
			got, err := model.Identifier(typ, object(t, tc.properties), "app")
			if got != tc.want || err != nil && err.Error() != tc.err || err == nil && tc.err != "" {
				t.Fatalf("got %q, %v", got, err)
			}
			if err == nil {
				properties := object(t, tc.properties)
				model.SetIdentifier(typ, properties, got)
				if back := model.IdentifierOf(typ, properties); back != got {
					t.Errorf("the properties have the identifier %q instead of %q", back, got)
				}
			}
		})
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(`{"Tags":[{"Key":"a","Value":"1"}],"CidrBlock":"10.0.0.0/16"}`, `{"Tags":null,"CidrBlock":7}`, uint8(0))
	f.Add(`{"AssumeRolePolicyDocument":"{}","ManagedPolicyArns":["a"]}`, `{"AssumeRolePolicyDocument":{},"ManagedPolicyArns":{"a":1}}`, uint8(1))
	var types []*resourcetype.Type
	for _, name := range []string{"AWS::EC2::VPC", "AWS::IAM::Role", "AWS::RDS::DBInstance", "AWS::S3::Bucket", "AWS::EC2::SecurityGroup", "AWS::EKS::Cluster", "AWS::CloudFront::Distribution"} {
		typ, err := catalog.Get(name)
		if err != nil {
			f.Fatal(err)
		}
		types = append(types, typ)
	}
	f.Fuzz(func(t *testing.T, spec, answer string, which uint8) {
		forProvider, err := model.Decode([]byte(spec))
		if err != nil {
			return
		}
		read, err := model.Decode([]byte(answer))
		if err != nil {
			return
		}
		typ := types[int(which)%len(types)]
		wanted := model.Desired(typ, forProvider, nil)
		c := model.Compare(typ, wanted, read)
		_ = c.String()
		ops := model.Patch(typ, c, wanted, read)
		if len(ops) > 0 {
			apply(t, read, ops)
		}
		model.Chosen(typ, forProvider, read)
	})
}
