package backup

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestAKindThatIsBeingDeletedIsNotRefused(t *testing.T) {
	shelves := schema.GroupResource{Group: "example.com", Resource: "shelves"}
	refused := apierrors.NewForbidden(shelves, "x", errors.New("create not allowed while custom resource definition is terminating"))
	if !isTerminating(refused) || !isNotServingYet(refused) {
		t.Error("it is not waited for")
	}
	if denied := apierrors.NewForbidden(shelves, "x", errors.New("quota exceeded")); isTerminating(denied) || isNotServingYet(denied) {
		t.Error("a refusal is waited for")
	}
}

func TestAKindThatDiscoveryShowsAfterItsEndIsNotServed(t *testing.T) {
	i, _ := newImport(target(), exported(t))
	c := i.client.(*fakekube.Cluster)
	app := appKey.GroupKind()
	c.Remove(object.Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "apps.kro.run"})
	if target, _, err := i.targetKinds(t.Context()); err != nil || target[app].Custom {
		t.Fatalf("a kind without CustomResourceDefinition is %+v, %v", target[app], err)
	}
	c.Before = func(request string) error {
		if strings.HasPrefix(request, "list App") {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{Group: app.Group, Resource: "apps"}, "", "404 page not found", 0, true)
		}
		return nil
	}
	if target, _, err := i.targetKinds(t.Context()); err != nil {
		t.Fatal(err)
	} else if found, served := target[app]; served {
		t.Errorf("it is served: %+v", found)
	}
}
