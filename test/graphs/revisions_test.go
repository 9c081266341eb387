package graphs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/standalone"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var controllerRevision = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// TestAGraphIsRolledBack to a spec that was accepted. Its revisions are deleted when the option is removed, and with the Graph.
func TestAGraphIsRolledBack(t *testing.T) {
	s := suite.New(t)
	builder(t, s)
	revised := func(limit, value string) string {
		return strings.Replace(graphOf("shop", fmt.Sprintf(`
  - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {k: %s}}}`, value)), "spec:\n", "spec:\n"+limit, 1)
	}
	const limited = "  revisionHistoryLimit: 2\n"
	is := func(value string, revisions ...int64) {
		t.Helper()
		s.Await(t, graph.GraphKind, s.NS, "shop", suite.All(condition("Ready", "True", ""), hasRevisions(revisions...)))
		s.Await(t, configMap, s.NS, "shop", suite.HasField(value, "data", "k"))
	}
	kubeconfig := testkit.Kubeconfig(t, s.Config)
	rollBack := func(args ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), append([]string{"rollback", "graph/shop", "--wait", "2m", "--namespace", s.NS, "--kubeconfig", kubeconfig}, args...), &out, &errs)
		return out.String() + errs.String(), code
	}
	says := func(want string, code int, args ...string) {
		t.Helper()
		if text, got := rollBack(args...); got != code || !strings.Contains(text, want) {
			t.Errorf("rollback %q: exit code %d: %s", args, got, text)
		}
	}
	s.Apply(t, revised("", "one"))
	is("one")
	says("it has no revision", 1)
	s.Apply(t, revised(limited, "one"))
	is("one", 1)
	s.Apply(t, revised(limited, "two"))
	is("two", 1, 2)
	s.Apply(t, revised(limited, `"${nothing}"`))
	s.Await(t, graph.GraphKind, s.NS, "shop", suite.All(condition("Accepted", "False", "InvalidGraph"), hasRevisions(1, 2)))
	says("Graph shop rolls back to revision 2", 0)
	is("two", 1, 2)
	says("Graph shop has the spec of revision 2", 0, "--to", "2")
	says("Graph shop rolls back from revision 2 to 1", 0)
	is("one", 2, 3)
	s.Await(t, graph.GraphKind, s.NS, "shop", suite.HasField(int64(2), "spec", "revisionHistoryLimit"))
	says("there is no revision 1; there are 2, 3", 1, "--to", "1")

	o := s.Get(t, graph.GraphKind, s.NS, "shop")
	name := standalone.RevisionName("shop", o.GetUID(), 2)
	forged := s.Get(t, controllerRevision, s.NS, name)
	s.Delete(t, controllerRevision, s.NS, name)
	s.AwaitGone(t, controllerRevision, s.NS, name)
	s.Apply(t, testkit.JSON(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": int64(2), "data": map[string]any{"spec": map[string]any{"nodes": []any{}}},
		"metadata": map[string]any{"name": name, "namespace": s.NS, "ownerReferences": forged.Object["metadata"].(map[string]any)["ownerReferences"]},
	}}))
	says("another client has replaced it", 1, "--to", "2")

	s.Apply(t, revised("", "one"))
	is("one")
	for number := range int64(4) {
		s.AwaitGone(t, controllerRevision, s.NS, standalone.RevisionName("shop", o.GetUID(), number))
	}
	s.Apply(t, revised(limited, "three"))
	is("three", 1)
	s.Delete(t, graph.GraphKind, s.NS, "shop")
	s.AwaitGone(t, graph.GraphKind, s.NS, "shop")
	s.AwaitGone(t, controllerRevision, s.NS, standalone.RevisionName("shop", o.GetUID(), 1))
}

// hasRevisions checks the numbers of the revisions in a status.
func hasRevisions(want ...int64) suite.Check {
	return func(o *unstructured.Unstructured) error {
		var got []int64
		for _, r := range standalone.Revisions(o) {
			got = append(got, r.Revision)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("the revisions are %v, want %v", got, want)
		}
		return nil
	}
}
