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
)

// maxSize is how large a CustomResourceDefinition may be, in bytes of JSON: etcd's limit is about 1.5 MB.
const maxSize = 400_000

// TestEveryTypeIsConverted converts all types, and compares how many say what their CustomResourceDefinition
// does not.
func TestEveryTypeIsConverted(t *testing.T) {
	names := catalog.Names()
	losses, typesWith := map[crd.What]int{}, map[crd.What]int{}
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
		size += len(raw)
		sizes = append(sizes, len(raw))
		checkInitial(t, name, definition)
	}
	slices.Sort(sizes)
	var text strings.Builder
	fmt.Fprintf(&text, "types: %d\nwithout a loss: %d\n", len(names), lossless)
	fmt.Fprintf(&text, "kB of JSON: %d in all, median %d, 95%% below %d, largest %d\n\nlosses, and types that have them:\n",
		size>>10, sizes[len(sizes)/2]>>10, sizes[len(sizes)*95/100]>>10, sizes[len(sizes)-1]>>10)
	for _, what := range slices.Sorted(maps.Keys(losses)) {
		fmt.Fprintf(&text, "%-20s %5d %5d\n", what, losses[what], typesWith[what])
	}
	golden.Compare(t, "testdata/all.txt", text.String())
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
