package kinds

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/crd"
)

// sample are types with much of what schemas can have: references, Secrets, documents of any type, recursion,
// alternatives, and the largest one.
var sample = []string{
	"AWS::AppFlow::ConnectorProfile", "AWS::CloudFront::Distribution", "AWS::EC2::LaunchTemplate", "AWS::EC2::Subnet",
	"AWS::EC2::VPC", "AWS::EKS::Cluster", "AWS::EKS::Nodegroup", "AWS::Events::Rule", "AWS::IAM::Role",
	"AWS::Lambda::Function", "AWS::QuickSight::Dashboard", "AWS::RDS::DBInstance", "AWS::Redshift::Cluster", "AWS::Route53::RecordSet",
	"AWS::S3::Bucket", "AWS::SecretsManager::Secret", "AWS::SecurityHub::Insight", "AWS::WAFv2::WebACL",
}

// TestSweepDefinitionsAreAccepted applies CustomResourceDefinitions by dry run, as activations apply them: those of the
// sample, or with ESPALIER_TEST_FULL, those of all types, in both scopes.
func TestSweepDefinitionsAreAccepted(t *testing.T) {
	client, err := clientset.NewForConfig(testkit.ExclusiveServer(t))
	if err != nil {
		t.Fatal(err)
	}
	names := sample
	if os.Getenv("ESPALIER_TEST_FULL") != "" {
		names = catalog.Names()
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, name := range names {
		for _, clusterScoped := range []bool{false, true} {
			group.Go(func() error {
				if err := accept(t.Context(), client, name, clusterScoped); err != nil {
					t.Errorf("%s, cluster-scoped %t: %v", name, clusterScoped, err)
				}
				return nil
			})
		}
	}
	_ = group.Wait()
	t.Logf("%d CustomResourceDefinitions", 2*len(names))
}

func accept(ctx context.Context, client clientset.Interface, name string, clusterScoped bool) error {
	definition, err := define(name, clusterScoped)
	if err != nil {
		return err
	}
	definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	raw, err := json.Marshal(definition)
	if err != nil {
		return err
	}
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, definition.Name, types.ApplyPatchType, raw, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: "test",
	})
	return err
}

func define(name string, clusterScoped bool) (*apiextensionsv1.CustomResourceDefinition, error) {
	found, err := catalog.Get(name)
	if err != nil {
		return nil, err
	}
	definition, _, err := crd.For(found, clusterScoped)
	return definition, err
}
