package composite

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Memories are what is remembered of the composites of a kind between reconciles; a restart loses it. The zero value and
// nil are empty. Memories are safe for concurrent use, and the memory of one composite is used by one reconcile at a time.
type Memories struct {
	mu    sync.Mutex
	byKey map[object.Key]*memory
}

// The memory of a former incarnation is dropped.
func (m *Memories) of(composite *unstructured.Unstructured) *memory {
	if m == nil {
		return &memory{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]*memory{}
	}
	key, uid := object.KeyOf(composite), composite.GetUID()
	if known, ok := m.byKey[key]; ok && known.uid == uid {
		return known
	}
	fresh := &memory{uid: uid}
	m.byKey[key] = fresh
	return fresh
}

// Forget drops what is remembered of a composite.
func (m *Memories) Forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// answers are what functions have answered in a round, by the function and the tag of the request. A run that lacks
// what a function requires begins again once that is read, and calls no function twice with the same request.
type answers map[answerKey]*fnv1.RunFunctionResponse

type answerKey struct{ function, tag string }

type remembering struct {
	pipeline.Runner
	answers answers
}

func (a answers) remembering(r pipeline.Runner) pipeline.Runner { return remembering{r, a} }

// Run implements pipeline.Runner.
func (r remembering) Run(ctx context.Context, function string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	key := answerKey{function, request.GetMeta().GetTag()}
	if known, ok := r.answers[key]; ok {
		return known, nil
	}
	answer, err := r.Runner.Run(ctx, function, request)
	if err == nil {
		r.answers[key] = answer
	}
	return answer, err
}
