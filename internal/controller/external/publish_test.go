package external

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
