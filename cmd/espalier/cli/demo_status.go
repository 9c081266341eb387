package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// topStatus formats the author's fields in the status of an instance.
func topStatus(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	var out []string
	for _, field := range slices.Sorted(maps.Keys(status)) {
		switch field {
		case report.StateField, report.ConditionsField, report.WaitingField, report.DeletionField, report.PruningField, report.ProblemsField:
		default:
			out = append(out, fmt.Sprintf("%s=%v", field, status[field]))
		}
	}
	return strings.Join(out, " ")
}
