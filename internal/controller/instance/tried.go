package instance

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/plan"
)

// try notes something about a child that is to go.
func (m *memory) try(o *unstructured.Unstructured, change func(plan.Trial) plan.Trial) plan.Trial {
	if m.tried.Children == nil {
		m.tried.Children = map[types.UID]plan.Trial{}
	}
	t := change(m.tried.Children[o.GetUID()])
	m.tried.Children[o.GetUID()] = t
	return t
}
