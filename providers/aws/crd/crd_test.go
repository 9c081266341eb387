package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/crd"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// maxSize is how large a CustomResourceDefinition may be, in bytes of JSON: etcd's limit is about 1.5 MB.
const maxSize = 400_000

// TestEveryTypeIsConverted converts all types, and compares how many say what their CustomResourceDefinition
// does not.
func TestEveryTypeIsConverted(t *testing.T) {
	names := catalog.Names()
	losses, typesWith := map[crd.What]int{}, map[crd.What]int{}
	exclusions, typesWithExclusions, secrets, typesWithSecrets := 0, 0, 0, 0
	lossless, size := 0, 0
	var sizes []int
	for _, name := range names {
		found, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		definition, lost, err := crd.For(found, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := json.Marshal(definition)
		if err != nil || len(raw) > maxSize {
			t.Errorf("%s: has %d bytes: %v", name, len(raw), err)
		}
		if len(lost) == 0 {
			lossless++
		}
		for what, n := range crd.Count(lost) {
			losses[what] += n
			typesWith[what]++
		}
		checkRules(t, name, definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if n := countExclusions(definition.Spec.Versions[0].Schema.OpenAPIV3Schema); n > 0 {
			exclusions, typesWithExclusions = exclusions+n, typesWithExclusions+1
		}
		if n := len(resourcetype.ReadableSecretPaths(found)); n > 0 {
			secrets, typesWithSecrets = secrets+n, typesWithSecrets+1
		}
		size += len(raw)
		sizes = append(sizes, len(raw))
		checkInitial(t, name, definition)
	}
	slices.Sort(sizes)
	var text strings.Builder
	fmt.Fprintf(&text, "types: %d\nwithout a loss: %d\n", len(names), lossless)
	fmt.Fprintf(&text, "rules of properties that exclude each other: %d of %d types\n", exclusions, typesWithExclusions)
	fmt.Fprintf(&text, "secrets that AWS may return: %d of %d types\n", secrets, typesWithSecrets)
	fmt.Fprintf(&text, "kB of JSON: %d in all, median %d, 95%% below %d, largest %d\n\nlosses, and types that have them:\n",
		size>>10, sizes[len(sizes)/2]>>10, sizes[len(sizes)*95/100]>>10, sizes[len(sizes)-1]>>10)
	for _, what := range slices.Sorted(maps.Keys(losses)) {
		fmt.Fprintf(&text, "%-20s %5d %5d\n", what, losses[what], typesWith[what])
	}
	golden.Compare(t, "testdata/all.txt", text.String())
}

// checkRules checks that no schema has an expression twice, which server-side apply refuses.
func checkRules(t *testing.T, name string, s *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	seen := map[string]bool{}
	for _, rule := range s.XValidations {
		if seen[rule.Rule] {
			t.Errorf("%s: has a rule twice: %s", name, rule.Rule)
		}
		seen[rule.Rule] = true
	}
	for _, each := range s.Properties {
		checkRules(t, name, &each)
	}
	if s.Items != nil {
		checkRules(t, name, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		checkRules(t, name, s.AdditionalProperties.Schema)
	}
}

// countExclusions counts the rules that properties exclude each other: expressions, and parts of schemas.
func countExclusions(s *apiextensionsv1.JSONSchemaProps) int {
	n := 0
	for _, rule := range s.XValidations {
		if strings.HasSuffix(rule.Message, "they exclude each other") {
			n++
		}
	}
	if s.Not != nil {
		n++
	}
	for _, each := range s.AllOf {
		n += countExclusions(&each)
	}
	for _, each := range s.Properties {
		n += countExclusions(&each)
	}
	if s.Items != nil {
		n += countExclusions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		n += countExclusions(s.AdditionalProperties.Schema)
	}
	return n
}

// checkInitial checks that initProvider has the properties of forProvider, and requires none.
func checkInitial(t *testing.T, name string, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var visit func(path string, desired, initial apiextensionsv1.JSONSchemaProps)
	visit = func(path string, desired, initial apiextensionsv1.JSONSchemaProps) {
		if isSibling := strings.HasSuffix(path, "Ref") || strings.HasSuffix(path, "Refs[]"); len(initial.Required) > 0 && !isSibling {
			t.Errorf("%s: initProvider%s requires %v", name, path, initial.Required)
		}
		for field, property := range desired.Properties {
			other, has := initial.Properties[field]
			if !has {
				t.Errorf("%s: initProvider%s has no %s", name, path, field)
			}
			visit(path+"."+field, property, other)
		}
		if desired.Items != nil && initial.Items != nil {
			visit(path+"[]", *desired.Items.Schema, *initial.Items.Schema)
		}
	}
	visit("", spec.Properties["forProvider"], spec.Properties["initProvider"])
}

// TestDefinitions compares the CustomResourceDefinitions of a few types, without initProvider, and what they lose.
func TestDefinitions(t *testing.T) {
	for _, name := range []string{
		"AWS::CloudFront::Distribution", "AWS::EC2::Subnet", "AWS::EC2::VPC", "AWS::EKS::Cluster", "AWS::EKS::Nodegroup",
		"AWS::IAM::Role", "AWS::RDS::DBInstance", "AWS::S3::Bucket",
	} {
		found, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		definition, losses, err := crd.For(found, false)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, loss := range losses {
			fmt.Fprintf(&text, "# lost: %s: %s\n", loss.Path, loss.What)
		}
		delete(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "initProvider")
		text.WriteString(golden.YAML(t, definition))
		golden.Compare(t, "testdata/"+strings.ReplaceAll(strings.TrimPrefix(name, "AWS::"), "::", "-")+".yaml", text.String())
	}
}

func TestClusterScopedDefinition(t *testing.T) {
	found, err := catalog.Get("AWS::RDS::DBInstance")
	if err != nil {
		t.Fatal(err)
	}
	definition, _, err := crd.For(found, true)
	if err != nil {
		t.Fatal(err)
	}
	forProvider := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["forProvider"]
	if definition.Name != "clusterdbinstances.rds.aws.espalier.dev" || definition.Spec.Scope != apiextensionsv1.ClusterScoped ||
		definition.Spec.Names.Kind != "ClusterDBInstance" || definition.Annotations[crd.TypeAnnotation] != found.Name {
		t.Errorf("got %s of the scope %s", definition.Name, definition.Spec.Scope)
	}
	if _, isPlain := forProvider.Properties["MasterUserPassword"]; isPlain {
		t.Error("the password is a plain value")
	}
	if required := forProvider.Properties["MasterUserPasswordSecretRef"].Required; !slices.Contains(required, "namespace") {
		t.Errorf("a Secret is named by %v", required)
	}
}
