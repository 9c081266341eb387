package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/espalier-dev/espalier/internal/object"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// newFake is a cluster with ConfigMaps of the given names, which are its only kind.
func newFake(names ...string) (*Cluster, *fake.FakeDynamicClient) {
	var objects []runtime.Object
	for _, name := range names {
		objects = append(objects, configMap(name))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"}, objects...)
	kinds := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"list"}}}},
	}}}
	return NewFor(client, kinds), client
}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "prod", "name": name},
	}}
}

// pages are three pages of two ConfigMaps, named 0 to 5. Those that failures has are answered by an error.
type pages struct {
	failures map[string]*apierrors.StatusError // by the continue token
	asked    []string                          // limit and continue token of each request
}

// RoundTrip implements http.RoundTripper.
func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	token := r.URL.Query().Get("continue")
	p.asked = append(p.asked, strings.TrimSpace(r.URL.Query().Get("limit")+" "+token))
	code, body := http.StatusOK, ""
	if failure := p.failures[token]; failure != nil {
		failure.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		raw, err := json.Marshal(failure.ErrStatus)
		if err != nil {
			return nil, err
		}
		code, body = int(failure.ErrStatus.Code), string(raw)
	} else {
		page := map[string]int{"": 0, "a": 1, "b": 2}[token]
		body = fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"continue": %q}, "items": [
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%d"}}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%d"}}]}`,
			[]string{"a", "b", ""}[page], 2*page, 2*page+1)
	}
	return &http.Response{
		StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func TestListsAreReadInPages(t *testing.T) {
	cases := map[string]struct {
		max         int
		failures    map[string]*apierrors.StatusError
		want, asked []string
		err         string
	}{
		"All pages":                  {want: []string{"0", "1", "2", "3", "4", "5"}, asked: []string{"500", "500 a", "500 b"}},
		"A maximum of one page":      {max: 2, want: []string{"0", "1"}, asked: []string{"2"}},
		"A maximum of several pages": {max: 4, want: []string{"0", "1", "2", "3"}, asked: []string{"4", "2 a"}},
		"A failure leaves the pages before it": {
			failures: map[string]*apierrors.StatusError{"a": apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no"))},
			want:     []string{"0", "1"}, asked: []string{"500", "500 a"}, err: "list configmaps: configmaps is forbidden: no",
		},
		"A kind that is not served has no objects": {
			failures: map[string]*apierrors.StatusError{"": apierrors.NewNotFound(configMaps.GroupResource(), "")}, asked: []string{"500"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &pages{failures: tc.failures}
			cluster, err := New(&rest.Config{Host: "http://cluster", Transport: server})
			if err != nil {
				t.Fatal(err)
			}
			got, err := cluster.List(t.Context(), Query{Resource: configMaps, Max: tc.max})
			var names []string
			for _, o := range got {
				names = append(names, o.GetName())
			}
			if diff := cmp.Diff(tc.want, names) + cmp.Diff(tc.asked, server.asked); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(err); err != nil && text != tc.err || err == nil && tc.err != "" {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if tc.err != "" && !apierrors.IsForbidden(err) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

func TestAnObjectIsReadByItsKey(t *testing.T) {
	cluster, _ := newFake("one")
	key := object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "one"}
	if o, err := cluster.Get(t.Context(), key); err != nil || o.GetName() != "one" {
		t.Errorf("got %v, %v", o, err)
	}
	key.Name = "two"
	if o, err := cluster.Get(t.Context(), key); err != nil || o != nil {
		t.Errorf("got %v, %v for an object that does not exist", o, err)
	}
	key.Kind = "Widget"
	var unknown *UnknownKindError
	if _, err := cluster.Get(t.Context(), key); !errors.As(err, &unknown) || err.Error() != `no matches for kind "Widget"` {
		t.Errorf("got %v for a kind that is not served", err)
	}
}

// TestWatchesCountWhatIsInMemory watches a ConfigMap and then two. Nothing is in memory after the end.
func TestWatchesCountWhatIsInMemory(t *testing.T) {
	cluster, client := newFake("one")
	events := watch.NewFake()
	client.PrependWatchReactor("configmaps", clienttesting.DefaultWatchReactor(events, nil))
	var inMemory atomic.Int64
	var seen []int64
	err := cluster.Watching(t.Context(), func(ctx context.Context, w *Watches) error {
		w.Count = func(difference int64) { inMemory.Add(difference) }
		objects := w.Watch(ctx, Query{Resource: configMaps}, nil, nil)
		return w.Run(ctx, func() (done bool, err error) {
			n := inMemory.Load()
			if !objects.HasSynced() || slices.Contains(seen, n) {
				return false, nil
			}
			if seen = append(seen, n); n == 1 {
				go events.Add(configMap("two")) // returns once the watch has read it
			}
			return len(objects.All()) == 2, nil
		})
	})
	if diff := cmp.Diff([]int64{1, 2}, seen); err != nil || diff != "" || inMemory.Load() != 0 {
		t.Errorf("%v, %d in memory after the end, (-want +got):\n%s", err, inMemory.Load(), diff)
	}
}
