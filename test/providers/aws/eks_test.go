package aws

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const (
	vpcType       = "AWS::EC2::VPC"
	subnetType    = "AWS::EC2::Subnet"
	roleType      = "AWS::IAM::Role"
	clusterType   = "AWS::EKS::Cluster"
	nodegroupType = "AWS::EKS::Nodegroup"
)

// topKind is the kind of the example's third layer.
var topKind = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "EksClusterWithVpc"}

// TestEKSWithVPC applies the example of three layers, changes its number of nodes, and deletes it. What exists is
// judged natively.
func TestEKSWithVPC(t *testing.T) {
	s := newSuite(t)
	applyExample(t, s)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: EksClusterWithVpc
metadata: {name: layers, namespace: $NS}
spec: {nodes: 3}
`)
	top := s.AwaitReady(t, topKind, s.NS, "layers")

	is := exampleIn(t, "layers")
	want := map[string]int{vpcType: 1, subnetType: 2, roleType: 2, clusterType: 1, nodegroupType: 1}
	if got := is.count(); !maps.Equal(got, want) {
		t.Fatalf("the cloud has %v of the example, not %v", got, want)
	}
	for _, path := range [][]string{{"vpcID", is[vpcType][0].Identifier}, {"privateSubnet1ID", tagged(is[subnetType], "layers-private-1")}} {
		if got, _, _ := unstructured.NestedString(top.Object, "status", path[0]); got != path[1] {
			t.Errorf("status.%s is %q, not %q", path[0], got, path[1])
		}
	}
	if got := desiredNodes(is[nodegroupType][0]); got != "3" {
		t.Errorf("the node group is to have %s nodes, not 3", got)
	}

	s.Patch(t, topKind, s.NS, "layers", `{"spec":{"nodes":4}}`)
	await(t, func() error {
		group, err := cloud.Describe(t.Context(), nodegroupType, "layers/layers")
		if err != nil || group == nil {
			return fmt.Errorf("the node group: %v, %w", group, err)
		}
		if got := desiredNodes(*group); got != "4" {
			return fmt.Errorf("the node group is to have %s nodes, not 4", got)
		}
		return nil
	})
	s.Await(t, topKind, s.NS, "layers", suite.HasField(int64(4), "status", "nodes"))
	if got := exampleIn(t, "layers").identifiers(); !slices.Equal(got, is.identifiers()) {
		t.Errorf("the change has replaced resources: %v are %v", is.identifiers(), got)
	}

	s.Delete(t, topKind, s.NS, "layers")
	s.AwaitGone(t, topKind, s.NS, "layers")
	if left := exampleIn(t, "layers").identifiers(); len(left) > 0 {
		t.Errorf("the object is gone, and the cloud has %v", left)
	}
}

// TestDefinitionsActivateKinds applies a definition with a kind that only the example's activation allows: it is
// served because of the definition, and not any more when the definition is gone.
func TestDefinitionsActivateKinds(t *testing.T) {
	s := newSuite(t)
	applyExample(t, s)
	const crd = "placementgroups.ec2.aws.espalier.dev"
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-ondemand}
spec:
  schema: {apiVersion: v1alpha1, kind: Placement, group: $GROUP}
  resources:
    - id: group
      template:
        apiVersion: ec2.aws.espalier.dev/v1alpha1
        kind: PlacementGroup
        metadata: {name: "${schema.metadata.name}"}
        spec: {forProvider: {Strategy: cluster}}
`)
	s.AwaitDefinitions(t, "ondemand")
	served := s.Get(t, suite.CRD, "", crd)
	if got := served.GetAnnotations()[resource.ActivationAnnotation]; got != "eks-with-vpc" {
		t.Errorf("the kind belongs to the activation %q", got)
	}
	s.Delete(t, suite.RGD, "", s.Name("ondemand"))
	s.AwaitGone(t, suite.CRD, "", crd)
}

// applyExample applies the activation and the definitions of the example, and waits until they are served.
func applyExample(t *testing.T, s suite.Suite) {
	t.Helper()
	files, err := filepath.Glob("../../../examples/eks-with-vpc/aws/[0-3]-*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("the files of the example: %v, %v", files, err)
	}
	for _, file := range files {
		s.ApplyFile(t, file)
	}
	for _, name := range []string{"vpc", "ekscluster", "eksclusterwithvpc"} {
		s.AwaitReady(t, suite.RGD, "", name)
	}
}

// found are resources by type.
type found map[string][]awscloud.Found

// exampleIn finds the resources of an example of the given name. The subnets and the node group are found by their
// VPC and cluster.
func exampleIn(t *testing.T, name string) found {
	t.Helper()
	out := found{}
	for typeName, is := range map[string]func(awscloud.Found) bool{
		vpcType:     func(f awscloud.Found) bool { return f.Tags()["Name"] == name },
		subnetType:  func(f awscloud.Found) bool { return strings.HasPrefix(f.Tags()["Name"], name+"-private-") },
		roleType:    func(f awscloud.Found) bool { return strings.HasPrefix(f.Identifier, name+"-") },
		clusterType: func(f awscloud.Found) bool { return f.Identifier == name },
	} {
		all, err := cloud.Find(t.Context(), typeName, "", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if is(f) {
				out[typeName] = append(out[typeName], f)
			}
		}
	}
	group, err := cloud.Describe(t.Context(), nodegroupType, name+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	if group != nil {
		out[nodegroupType] = []awscloud.Found{*group}
	}
	return out
}

func (f found) count() map[string]int {
	out := map[string]int{}
	for typeName, all := range f {
		out[typeName] = len(all)
	}
	return out
}

// identifiers returns the identifiers of all resources, sorted.
func (f found) identifiers() []string {
	var out []string
	for _, all := range f {
		for _, one := range all {
			out = append(out, one.Identifier)
		}
	}
	slices.Sort(out)
	return out
}

// tagged returns the identifier of the resource with a name tag.
func tagged(all []awscloud.Found, name string) string {
	for _, one := range all {
		if one.Tags()["Name"] == name {
			return one.Identifier
		}
	}
	return ""
}

func desiredNodes(group awscloud.Found) string {
	scaling, _ := group.Properties["ScalingConfig"].(map[string]any)
	return fmt.Sprint(scaling["DesiredSize"])
}
