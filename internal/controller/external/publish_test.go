package external

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
)

// TestASecretThatCannotBeWrittenIsTold is about a namespace that isn't there, say: it
// is no news of the managed resource, which nothing would come of.
func TestASecretThatCannotBeWrittenIsTold(t *testing.T) {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nowhere")
	if err := fmt.Errorf("write the connection secret: %w", quietly(err)); cluster.IsGone(err) {
		t.Errorf("it is taken for a managed resource that has gone: %v", err)
	}
}

// TestACopyHasItsSecretPublished is about a managed resource that is made of another's
// annotations, on another control plane say: its secret isn't there.
func TestACopyHasItsSecretPublished(t *testing.T) {
	was := &unstructured.Unstructured{Object: map[string]any{}}
	was.SetUID("1")
	copied := was.DeepCopy()
	copied.SetUID("2")
	connection := map[string][]byte{"endpoint": []byte("a")}
	if publishedDigest(was, "prod", "db", connection) == publishedDigest(copied, "prod", "db", connection) {
		t.Error("it counts as published")
	}
}
