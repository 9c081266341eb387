package instance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// nested puts the Web shop at the end of a chain of n Webs, each a child of the one before.
func (f *fixture) nested(n int) {
	var parent *unstructured.Unstructured
	for i := range n {
		child := f.shop()
		if i < n-1 {
			child = named(webKind, "prod", fmt.Sprint("web-", i))
		}
		if parent != nil {
			inventory.OwnerOf(parent, object.Definition{Name: "webs.example.org", Dialect: object.GraphDialect}, "v1").Recognizing(f.Keys, parent, time.Time{}).Mark(child, inventory.Place{Node: "next"})
		}
		parent = f.put(child)
	}
}

func TestInstancesAreNestedUpToALimit(t *testing.T) {
	cases := map[string]struct {
		depth, limit int
		composed     bool
	}{
		"An instance by itself":  {1, 1, true},
		"As many as are allowed": {3, 3, true},
		"One more":               {4, 3, false},
		"The default":            {plan.MaxDepth, 0, true},
		"One more than that":     {plan.MaxDepth + 1, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			f.Limits = Limits{Limits: plan.Limits{Depth: tc.limit}, Exceeded: telemetry.NewExceededLimits()}
			f.nested(tc.depth)
			f.reconcile()
			if got := strings.Contains(fmt.Sprint(f.calls), "create ConfigMap a"); got != tc.composed {
				t.Errorf("composed: %t, requests %q", got, f.calls)
			}
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(f.Limits.Exceeded)
			counted, err := registry.Gather()
			if err != nil || tc.composed != (len(counted) == 0) {
				t.Errorf("counted %v, %v", counted, err)
			}
			if !tc.composed {
				f.wantCondition(v1alpha1.InstanceReady, "LimitExceeded: more than "+fmt.Sprint(plan.Limits{Depth: tc.limit}.WithDefaults().Depth)+" instances are nested in each other (instanceLimits.depth): shop is created by")
			}
		})
	}
}
