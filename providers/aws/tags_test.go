package aws

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAManagedResourceCannotSetTagsOfOurs has a managed resource that would mark its resource as another one's.
func TestAManagedResourceCannotSetTagsOfOurs(t *testing.T) {
	tags := map[string]any{"Tags": []any{map[string]any{"Key": "espalier.dev/owner", "Value": "VPC.ec2.aws.espalier.dev/prod/main@1"}}}
	for _, field := range []string{"forProvider", "initProvider"} {
		m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{field: tags}}}
		if err := checkTags(m); err == nil || !strings.Contains(err.Error(), "spec."+field+".Tags[0].Key") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if err := checkTags(&unstructured.Unstructured{Object: map[string]any{}}); err != nil {
		t.Error(err)
	}
}
