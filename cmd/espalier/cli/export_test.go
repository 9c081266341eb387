package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAForbiddenExportSaysWhatItReads has the account of a team, which may read its namespace and nothing else.
func TestAForbiddenExportSaysWhatItReads(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no role"))
	err := exportError(fmt.Errorf("read Namespace kube-system: %w", forbidden))
	if text := err.Error(); !strings.Contains(text, "no role") || !strings.Contains(text, "even with --namespace") || !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if other := errors.New("no space left"); exportError(other).Error() != other.Error() {
		t.Error(exportError(other))
	}
}
