package dryrun_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/dryrun"
)

// listServer is an API server with one stored ConfigMap, b, which accepts each creation.
type listServer struct{}

func (listServer) RoundTrip(q *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: q}
	raw := []byte(`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default","resourceVersion":"5"}}]}`)
	if q.Method == http.MethodPost {
		var err error
		if raw, err = io.ReadAll(q.Body); err != nil {
			return nil, err
		}
		answer.StatusCode = http.StatusCreated
	}
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	return answer, nil
}

func TestPlannedObjectsAreListedInTheOrderOfAnAPIServer(t *testing.T) {
	config := dryrun.New().Wrap(&rest.Config{Host: "http://cluster.invalid", Transport: listServer{}})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(configMaps).Namespace("default")
	want := []string{"b"}
	for _, name := range []string{"f", "a", "e", "c", "g", "d"} {
		o := object(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name), "default")
		must[any](t)(objects.Create(t.Context(), o, metav1.CreateOptions{}))
		want = append(want, name)
	}
	slices.Sort(want)
	list, err := objects.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range list.Items {
		got = append(got, o.GetName())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
