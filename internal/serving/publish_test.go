package serving_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/serving"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

type known struct{}

func (known) Resolve(context.Context, schema.GroupVersionKind) (kube.Resource, error) {
	return kube.Resource{GVR: crds}, nil
}

// TestARefusalToPublishIsReportedAndRetried has the API server refuse a
// CustomResourceDefinition, and says that there is none of the name.
func TestARefusalToPublishIsReportedAndRetried(t *testing.T) {
	cases := map[string]struct {
		answer apierrors.APIStatus
		reason serving.Reason
		again  bool
	}{
		"A webhook says that the name is taken": {apierrors.NewConflict(crds.GroupResource(), "x", errors.New("not today")), serving.Refused, true},
		"The object is invalid":                 {apierrors.NewBadRequest("not today"), serving.Refused, false},
		"The API server has no time":            {apierrors.NewServiceUnavailable("not today"), serving.Establishing, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := tc.answer.Status()
				if r.Method == http.MethodGet {
					answer = apierrors.NewNotFound(crds.GroupResource(), "x").Status()
				}
				answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(answer.Code))
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer server.Close()
			p := serving.Publisher{Cluster: kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}), known{})}
			wanted := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			readiness, taken, err := p.Apply(t.Context(), wanted, nil)
			if taken || readiness.Ready || readiness.Reason != tc.reason || (err != nil) != tc.again {
				t.Errorf("got %+v, taken: %t, %v", readiness, taken, err)
			}
			if readiness.Reason == serving.Refused && !strings.Contains(readiness.Message, "not today") {
				t.Errorf("it doesn't say why: %s", readiness.Message)
			}
		})
	}
}

// TestWhatIsFoundIsPublished has another client's CustomResourceDefinition hold a name that the
// cache does not know: its deletion is noticed only if it is in the cache.
func TestWhatIsFoundIsPublished(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		foreign := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "foreign"}}
		foreign.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(foreign)
	}))
	defer server.Close()
	var published []types.UID
	p := serving.Publisher{
		Cluster:   kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}), known{}),
		Published: func(c *apiextensionsv1.CustomResourceDefinition) { published = append(published, c.UID) },
	}
	if found, err := p.Find(t.Context(), "x"); err != nil || found.UID != "foreign" {
		t.Fatalf("got %v, %v", found, err)
	}
	if !slices.Equal(published, []types.UID{"foreign"}) {
		t.Errorf("published %v", published)
	}
}
