package takeover_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/takeover"
)

// TestTheRecordOfAGraphIsCompleted: kro deletes what it records in reverse order, and leaves everything else behind.
func TestTheRecordOfAGraphIsCompleted(t *testing.T) {
	child := func(name, uid, layer string) unstructured.Unstructured {
		return *parsed(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: prod, uid: "+uid+
			", labels: {kro.run/node-id: n."+name+"}, annotations: {internal.kro.run/node-path: n/"+name+", internal.kro.run/apply-order: '"+layer+"'}}}")
	}
	const a, b = `{"nodeID":"n/a","apiVersion":"v1","kind":"ConfigMap","namespace":"prod","name":"a","uid":"1"}`, `{"nodeID":"n/b","apiVersion":"v1","kind":"ConfigMap","namespace":"prod","name":"b","uid":"2"}`
	graph := func(status string) *unstructured.Unstructured {
		return parsed(t, "{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: g, namespace: prod, resourceVersion: '7'}"+status+"}")
	}
	patch := func(before, record string) string {
		return `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` + before + `{"op":"add","path":"/status/managedResources","value":[` + record + `]}]`
	}
	for name, tc := range map[string]struct{ has, want string }{
		"what is missing, in the order of application": {"", patch(`{"op":"add","path":"/status","value":{}},`, a+","+b)},
		"what is recorded stays first":                 {", status: {managedResources: [" + b + "]}", patch("", b+","+a)},
		"another incarnation":                          {", status: {managedResources: [" + strings.Replace(a, `"1"`, `"0"`, 1) + "," + b + "]}", patch("", a+","+b)},
		"a complete record":                            {", status: {managedResources: [" + b + "," + a + "]}", ""},
	} {
		got, err := takeover.RecordPatch(graph(tc.has), []unstructured.Unstructured{child("b", "'2'", "2"), child("a", "'1'", "1")})
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, tc.want)
		}
	}
	var many []unstructured.Unstructured
	for i := range 5001 {
		many = append(many, child(fmt.Sprint("c", i), "u", "1"))
	}
	if _, err := takeover.RecordPatch(graph(""), many); err == nil || !strings.Contains(err.Error(), "it has 5001 objects, and kro records at most 5000") {
		t.Errorf("too many objects: %v", err)
	}
}
