package watches

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestChangesContinueAfterTheAPIServerRestarts changes instances while the API server restarts
// repeatedly. The test retries its own requests, as a user does; the controllers keep running.
func TestChangesContinueAfterTheAPIServerRestarts(t *testing.T) {
	restarts := testkit.Size(1, 3)
	plane := ownPlane(t)
	config := plane.Config()
	c := run(t, config)
	defer c.stop() // before the API server
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &lifecycle{client, testkit.Group(t), "default"}
	if err := p.create(t.Context(), t, "a", "b"); err != nil {
		t.Fatal(err)
	}

	var changes atomic.Int64
	ctx, stopChanges := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		busy.Go(func() {
			// Requests fail while no API server runs. The pause leaves the processor to the
			// controllers.
			pause := time.NewTicker(20 * time.Millisecond)
			defer pause.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				if p.setStatus(ctx, name, fmt.Sprint(name, "-", i)) == nil {
					changes.Add(1)
				}
				<-pause.C
			}
		})
	}
	awaitChanges := func() {
		t.Helper()
		before := changes.Load()
		if err := c.await(t.Context(), func() error {
			if changes.Load() < before+10 {
				return errors.New("the instances do not change")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range restarts {
		awaitChanges()
		plane.stop(t)
		plane.start(t)
	}
	if plane.Config().Host != config.Host {
		t.Fatalf("the API server listens on %s now, not on %s", plane.Config().Host, config.Host)
	}
	began := time.Now()
	awaitChanges()
	resumed := time.Since(began)
	stopChanges()
	busy.Wait()
	for i, name := range []string{"a", "b"} {
		if err := p.setStatus(t.Context(), name, fmt.Sprint("last-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(t.Context(), []part{definition, leaf, instances, kind}); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Report(t, "watches: the API server restarted %d times during %d changes, the last 10 of them within %.1f s of its start",
		restarts, changes.Load(), resumed.Seconds())
}

// TestWatchesAreRebuiltFromInventories restarts controllers whose definition no longer compiles, with
// and without the leaf's kind: only the inventories of the instances list what to watch.
func TestWatchesAreRebuiltFromInventories(t *testing.T) {
	for name, installed := range map[string]bool{"with the leaf kind": true, "without the leaf kind": false} {
		t.Run(name, func(t *testing.T) {
			p, c := start(t)
			ctx := t.Context()
			if err := p.create(ctx, t, "a", "b"); err != nil {
				t.Fatal(err)
			}
			c.stop()
			broken := strings.Replace(vpcDefinition, "${subnet.status.id}", "${nothing.status.id}", 1)
			if err := p.apply(ctx, t, p.client.Resource(definitions), broken); err != nil {
				t.Fatal(err)
			}
			patch := `{"metadata":{"annotations":{"espalier.dev/accepted-definition":null}}}`
			if _, err := p.client.Resource(crds).Patch(ctx, p.kindName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			noError(t, "no revision to fall back to", p.forgetRevisions(ctx))
			if !installed {
				if err := remove(ctx, p.client.Resource(crds), p.leafName(), true); err != nil {
					t.Fatal(err)
				}
			}

			config := testkit.ExclusiveServer(t)
			c = run(t, config)
			wanted := map[string]int{"ConfigMap": 2, "Subnet": 2}
			if !installed {
				delete(wanted, "Subnet") // its objects are deleted with it
			}
			err := c.await(ctx, func() error {
				got := map[string]int{}
				for _, s := range c.Hub.Stats() {
					if s.Selection == watch.Managed().String() && s.State.Phase == watch.Synced && (s.Kind.Group == "" || s.Kind.Group == "leaf."+p.group) {
						got[s.Kind.Kind] = s.Subscribers
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(wanted) {
					return fmt.Errorf("the watches are %v, not %v", got, wanted)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !installed {
				if err := p.apply(ctx, t, p.client.Resource(crds), leafKind); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.apply(ctx, t, p.client.Resource(definitions), vpcDefinition); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				if err := p.setStatus(ctx, name, "after the restart"); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.end(ctx, []part{leaf, instances, definition, kind}); err != nil {
				t.Fatal(err)
			}
			if err := p.awaitGone(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAnUnknownCoreKindIsRefusedFromTheStart starts controllers when a definition with a misspelt core
// kind exists. A core kind cannot be installed later. The controllers must know the API groups before
// they reconcile the definition, or they would accept it for a moment and publish its kind.
func TestAnUnknownCoreKindIsRefusedFromTheStart(t *testing.T) {
	p, c := start(t)
	c.stop()
	misspelt := strings.NewReplacer("leaf.$GROUP/v1alpha1", "v1", "Subnet", "ConfgMap").Replace(vpcDefinition)
	if err := p.apply(t.Context(), t, p.client.Resource(definitions), misspelt); err != nil {
		t.Fatal(err)
	}
	config := testkit.ExclusiveServer(t)
	slow := rest.CopyConfig(config)
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateAPIServices{next} })
	run(t, slow)
	o := testkit.NewCluster(t, config).Await(t, v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind), "", p.definitionName(), func(o *unstructured.Unstructured) error {
		if c, _ := condition.Read(o).Get(v1alpha1.DefinitionGraphAccepted); c.Status != condition.False || !strings.Contains(c.Message, `did you mean "ConfigMap"?`) {
			return fmt.Errorf("GraphAccepted is %+v", c)
		}
		return nil
	})
	if issued, found, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision"); found && issued > 0 {
		t.Errorf("revision %d of it was issued", issued)
	}
	if _, err := p.client.Resource(crds).Get(t.Context(), p.kindName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the kind was published: %v", err)
	}
	noError(t, "delete the definition", remove(t.Context(), p.client.Resource(definitions), p.definitionName(), true))
}

// lateAPIServices delays the responses about APIServices by a second.
type lateAPIServices struct{ next http.RoundTripper }

func (l lateAPIServices) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/apiservices") {
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return l.next.RoundTrip(r)
}

// forgetRevisions deletes the revisions of the definitions, while no controller runs that would
// create others.
func (p *lifecycle) forgetRevisions(ctx context.Context) error {
	revisions := p.client.Resource(schema.GroupVersionResource{Group: "internal.kro.run", Version: "v1alpha1", Resource: "graphrevisions"})
	list, err := revisions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if group, _, _ := unstructured.NestedString(o.Object, "spec", "snapshot", "spec", "schema", "group"); group != p.group {
			continue
		}
		if _, err := revisions.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := revisions.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}
