package serving

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/writer"
)

// deleted is a session of a deleted definition; it has nothing else than its endings.
type deleted struct {
	Session
	endings []*Ending
}

func (d deleted) Endings(context.Context) []*Ending { return d.endings }

// Each installation serves the instances that remain; one of them takes the steps of the deletion.
func TestAnInstallationThatMayNotWriteServesTheRemainingKinds(t *testing.T) {
	served := 0
	serve := func(context.Context) { served++ }
	for reason, tc := range map[string]struct {
		endings []*Ending
		want    int
	}{
		"a kind that the API server serves has instances that this installation reconciles": {[]*Ending{{Serve: serve}}, 1},
		"a kind that was never served, or is gone, has none":                                {[]*Ending{{}}, 0},
		"that one of two kinds is gone says nothing about the other":                        {[]*Ending{{}, {Serve: serve}}, 1},
	} {
		served = 0
		d := &Definition{Object: &writer.Object{Unstructured: &unstructured.Unstructured{}}}
		out := (&Reconciler{}).end(kube.ReadOnly(t.Context()), d, deleted{endings: tc.endings})
		if !out.IsFinal() || out.Err != nil || served != tc.want {
			t.Errorf("%s: served %d kinds, not %d; the result is %+v", reason, served, tc.want, out)
		}
	}
}
