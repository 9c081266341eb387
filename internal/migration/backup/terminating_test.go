package backup

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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

// TestAKindWhoseDefinitionIsInstalledMeanwhileHasADefiner installs the CustomResourceDefinition of
// a kind that discovery showed before, between the requests for both.
func TestAKindWhoseDefinitionIsInstalledMeanwhileHasADefiner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := newImport(target(), exported(t))
		c := i.client.(*fakekube.Cluster)
		app, key := appKey.GroupKind(), object.Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "apps.kro.run"}
		installed := c.Object(key)
		c.Remove(key)
		c.Before = func(request string) error {
			if strings.HasPrefix(request, "list App") && c.Object(key) == nil {
				c.Add(installed)
			}
			return nil
		}
		if target, _, err := i.targetKinds(t.Context()); err != nil {
			t.Fatal(err)
		} else if by := target[app].Definition; by.Name != "apps" {
			t.Errorf("it is %+v", target[app])
		}
	})
}
