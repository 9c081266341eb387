package aws_test

import (
	"slices"
	"testing"

	served "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/providers/aws"
)

// TestProgramsServeTheMetrics makes the provider of a program twice, as a program's tests do.
func TestProgramsServeTheMetrics(t *testing.T) {
	for range 2 {
		if _, err := (aws.Flags{}).Provider(); err != nil {
			t.Fatal(err)
		}
	}
	families, err := served.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	for _, want := range []string{"espalier_aws_resources_read_total", "espalier_aws_calls_waiting"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not served", want)
		}
	}
}
