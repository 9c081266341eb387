package cli

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// explainTree explains the root of a tree. The status of the instance that it belongs to says more of it than its own, so that it is
// explained as a part of that, as far as that can be read.
func (i instance) explainTree(ctx context.Context, state observe.ClusterState, now time.Time) observe.Explanation {
	if key, _, isChild := inventory.InstanceOf(state.Root); isChild {
		if of, err := i.gather(ctx, key); err == nil {
			i.addEvents(ctx, &of)
			i.addServing(ctx, &of)
			if explained, found := observe.ExplainChild(observe.Build(of, now), report.ObjectOf(state.Root), now); found {
				return explained
			}
		}
	}
	i.addEvents(ctx, &state)
	i.addServing(ctx, &state)
	return observe.Explain(observe.Build(state, now), now)
}

var eventResource = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// maxEvents bounds how many events about corrections are read of a namespace.
const maxEvents = 500

// addEvents adds the events about corrections, if the status of an instance has a contest. They only add details: without permission to
// list them, there are none.
func (i instance) addEvents(ctx context.Context, state *observe.ClusterState) {
	var read []string
	for _, o := range state.Objects() {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault // where events about cluster-scoped objects are
		}
		isContest := func(p report.Problem) bool { return p.Reason == string(plan.DriftContested) }
		if slices.Contains(read, namespace) || !slices.ContainsFunc(report.ReadProblems(o), isContest) {
			continue
		}
		read = append(read, namespace)
		events, _ := i.List(ctx, reader.Query{ // none without permission
			Resource: eventResource, Namespace: namespace, Fields: fields.OneTermEqualSelector("reason", plan.DriftCorrected).String(), Max: maxEvents,
		})
		state.Events = append(state.Events, events...)
	}
}
