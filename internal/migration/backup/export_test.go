package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestExport(t *testing.T) {
	all := []string{
		"namespaces: Namespace dev, Namespace prod",
		"revisions of compositions and definitions: GraphRevision apps-1",
		"definitions: ResourceGraphDefinition apps",
		"provider configurations: ProviderConfig prod/default",
		"managed resources: Database dev/alone, Database prod/web",
		"bindings: Binding k-tombstone, Binding u-db-1, Binding u-db-2",
		"instances: App dev/test, App prod/web",
		"usages: Usage prod/ledger",
	}
	notes := []string{
		"ProviderConfig prod/default needs Secret prod/creds, which is not exported",
		"no matches for kind \"Job\" in version \"batch.example.org/v1\", which ResourceGraphDefinition apps composes: an import does not require it, and its nodes wait for it after the import, too",
	}
	cases := map[string]struct {
		reason  string
		objects []string
		given   func(*fakekube.Cluster, *Export)
		want    []string
		notes   []string
	}{
		"everything": {
			reason:  "Secrets, objects that controllers create again, and unrelated objects are left out",
			objects: []string{namespaces, crds, graphs}, want: all, notes: notes,
		},
		"with Secrets": {
			reason:  "they were requested",
			objects: []string{namespaces, crds, graphs}, given: func(_ *fakekube.Cluster, e *Export) { e.Secrets = true },
			want: append(append(append([]string{}, all[:4]...), "secrets: Secret prod/creds"), all[4:]...), notes: notes[1:],
		},
		"with Secrets, one of which does not exist": {
			reason:  "the notes say so",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, e *Export) {
				e.Secrets = true
				c.Remove(object.Key{Kind: "Secret", Namespace: "prod", Name: "creds"})
			},
			want: all, notes: []string{"ProviderConfig prod/default needs Secret prod/creds, which does not exist", notes[1]},
		},
		"with Secrets, one of which is a token": {
			reason:  "an import elsewhere must not bring access to this cluster",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, e *Export) {
				e.Secrets = true
				c.Change(object.Key{Kind: "Secret", Namespace: "prod", Name: "creds"}, func(o *unstructured.Unstructured) { o.Object["type"] = "kubernetes.io/service-account-token" })
			},
			want: all, notes: []string{"ProviderConfig prod/default needs Secret prod/creds, which is not exported: its type or name gives access to this cluster", notes[1]},
		},
		"with Secrets, one of which is elsewhere": {
			reason:  "whoever may write configurations in a namespace may not read the Secrets of others",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, e *Export) {
				e.Secrets = true
				config := object.Key{Group: "cloud.example.org", Kind: "ProviderConfig", Namespace: "prod", Name: "default"}
				c.Change(config, func(o *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(o.Object, "dev", "spec", "credentials", "secretRef", "namespace")
				})
			},
			want: all, notes: []string{"ProviderConfig prod/default refers to Secret dev/creds, which is not exported: it is outside the namespaces of the export, or of the object", notes[1]},
		},
		"a namespace": {
			reason:  "its instances and managed resources, with their definitions",
			objects: []string{namespaces, crds, graphs},
			given:   func(_ *fakekube.Cluster, e *Export) { e.Selection.Namespaces = []string{"dev"} },
			want: []string{
				"namespaces: Namespace dev", all[1], all[2], "managed resources: Database dev/alone", "bindings: Binding u-db-2", "instances: App dev/test",
			},
			notes: notes[1:],
		},
		"a configuration of another provider": {
			reason:  "its managed resources may come later",
			objects: []string{namespaces, crds, graphs, otherProvider},
			want:    append(append(slices.Clone(all[:3]), "provider configurations: ProviderConfig prod/default, ClusterProviderConfig default"), all[4:]...), notes: notes,
		},
		"a definition": {
			reason:  "its instances, their managed resources and the configurations of these; no tombstones",
			objects: []string{namespaces, crds, graphs, otherProvider},
			given:   func(_ *fakekube.Cluster, e *Export) { e.Selection.Definitions = []string{"apps"} },
			want: []string{
				all[0], all[1], all[2], all[3], "managed resources: Database prod/web", "bindings: Binding u-db-1", all[6], all[7],
			},
			notes: notes,
		},
		"a definition of composites": {
			reason:  "with its compositions, their functions, and the managed resources of composites",
			objects: []string{namespaces, crds, graphs, compositions},
			given:   func(_ *fakekube.Cluster, e *Export) { e.Selection.Definitions = []string{"xshops.shop.example.org"} },
			want: []string{
				"namespaces: Namespace prod", "functions: EnvironmentConfig region, Function function-render",
				"revisions of compositions and definitions: CompositionRevision shop-1", "compositions: Composition shop",
				"definitions: CompositeResourceDefinition xshops.shop.example.org", all[3], "instances: Shop prod/corner, XShop corner-x",
			},
			notes: []string{
				"Composition shop reads metadata.uid, which changes with an import: objects that are named after it would be created again",
				"FunctionRevision function-render-1 is not exported: it holds the address of a function in this cluster, and no controller creates it in another",
				"Composition shop needs Secret prod/render, which is not exported", notes[0],
			},
		},
		"a definition whose composition is gone": {
			reason:  "its revisions need it",
			objects: []string{namespaces, crds, graphs, compositions},
			given: func(c *fakekube.Cluster, e *Export) {
				e.Selection.Definitions = []string{"xshops.shop.example.org"}
				c.Remove(object.Key{Group: compositionKind.Group, Kind: "Composition", Name: "shop"})
			},
			want: []string{
				"namespaces: Namespace prod", "functions: EnvironmentConfig region, Function function-render",
				"definitions: CompositeResourceDefinition xshops.shop.example.org", all[3], "instances: Shop prod/corner, XShop corner-x",
			},
			notes: []string{
				"CompositionRevision shop-1 is not exported: Composition shop does not exist",
				"FunctionRevision function-render-1 is not exported: it holds the address of a function in this cluster, and no controller creates it in another",
				notes[0],
			},
		},
		"a control plane of an older version": {
			reason:  "it has no kinds of the composition dialect, no usages and no Bindings",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, _ *Export) {
				for _, gvk := range []schema.GroupVersionKind{compositeDefinitionKind, compositionKind, revisionKind, bindingKind, graphRevisionKind} {
					c.Kinds[gvk.GroupKind()] = fakekube.Kind{Unserved: true}
				}
			},
			want: without(without(all, "bindings"), "revisions"), notes: append([]string{"no Bindings are exported: their kind is not served"}, notes...),
		},
		"lists in pages": {
			reason:  "the export is the same",
			objects: []string{namespaces, crds, graphs},
			given:   func(c *fakekube.Cluster, _ *Export) { c.Page = 1 }, want: all, notes: notes,
		},
		"a list that expires": {
			reason:  "it begins again; no object is in the export twice, and none that was deleted",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, _ *Export) {
				c.Page = 1
				expired := map[string]int{}
				c.Before = func(request string) error {
					if strings.HasPrefix(request, "list ") && request != "list Usage " { // of two groups
						if expired[request]++; expired[request] == 2 {
							if request == "list App " {
								c.Remove(object.Key{Group: "kro.run", Kind: "App", Namespace: "dev", Name: "test"})
							}
							return apierrors.NewResourceExpired("too old")
						}
					}
					return nil
				}
			},
			want: append(append(append([]string{}, all[:6]...), "instances: App prod/web"), all[7]), notes: notes,
		},
		"a managed resource that is deleted during the export": {
			reason:  "an import must not create it again",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, _ *Export) {
				c.Change(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-db-1"}, phase("Deleting"))
				c.Before = func(request string) error {
					if request == "list Binding " {
						c.Remove(databaseKey)
					}
					return nil
				}
			},
			want: []string{
				all[0], all[1], all[2], all[3], "managed resources: Database dev/alone", "bindings: Binding k-tombstone, Binding u-db-2", all[6], all[7],
			},
			notes: append([]string{"Database prod/web was deleted during the export, and is not exported"}, notes...),
		},
		"a namespace that is deleted during the export": {
			reason:  "its objects need it",
			objects: []string{namespaces, crds, graphs},
			given: func(c *fakekube.Cluster, _ *Export) {
				c.Remove(object.Key{Kind: "Namespace", Name: "dev"})
			},
			want: all, notes: []string{notes[0], "namespace dev was being deleted during the export", notes[1]},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newPlane(tc.objects...)
			e := newExport(c)
			if tc.given != nil {
				tc.given(c, e)
			}
			file := export(t, e)
			if diff := cmp.Diff(tc.want, names(file)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.notes, file.Header.Notes); diff != "" {
				t.Errorf("%s: notes (-want +got):\n%s", tc.reason, diff)
			}
			if h := file.Header; h.Installation != "plane-1" || h.Version != "v1.2.3" || h.At.Unix() != 1000 {
				t.Errorf("the header is %+v", h)
			}
			if writes := c.Writes(); len(writes) > 0 {
				t.Errorf("an export writes %q", writes)
			}
		})
	}
}

func phase(p string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, p, "spec", "phase") }
}

func deleting(o *unstructured.Unstructured) {
	now := metav1.Unix(500, 0)
	o.SetDeletionTimestamp(&now)
}

func TestFieldsOfAnExportedObject(t *testing.T) {
	c := newPlane(namespaces, crds, graphs, compositions)
	c.Change(appKey, deleting)
	file := export(t, newExport(c))
	app, xshop, database := find(file, appKey), find(file, object.Key{Group: "shop.example.org", Kind: "XShop", Name: "corner-x"}), find(file, databaseKey)
	if app.GetUID() != "" || app.GetOwnerReferences() != nil || archive.HasStatus(app) || len(app.GetFinalizers()) != 1 {
		t.Errorf("UID, owner references, status or other finalizers are in the export: %v", app.Object)
	}
	if policy, deleting := archive.Deleting(app); !deleting || policy != metav1.DeletePropagationBackground {
		t.Errorf("the deletion policy in the export is %q", policy)
	}
	if !archive.HasStatus(xshop) || archive.HasStatus(database) {
		t.Error("the export has the status of an object other than a composite, or lacks that of a composite")
	}
	if got := file.Header.Requires; len(got) != 1 || got[0].Kind != "Database" {
		t.Errorf("the required kinds are %v", got)
	}
}

// TestStatusesThatFunctionsSeeAreExported is about instances of graphs, and managed resources,
// that composites are composed of.
func TestStatusesThatFunctionsSeeAreExported(t *testing.T) {
	c := newPlane(namespaces, crds, graphs, compositions)
	xshop := object.Key{Group: "shop.example.org", Kind: "XShop", Name: "corner-x"}
	c.Change(appKey, partOf(xshop, "v1"))
	file := export(t, newExport(c))
	for _, key := range []object.Key{appKey, databaseKey, xshop} {
		if !archive.HasStatus(find(file, key)) {
			t.Errorf("%s has no status", key)
		}
	}
}

// TestAClaimThatNamesItsCompositeMeanwhileIsReadAgain is about a claim for which an import would
// create another composite.
func TestAClaimThatNamesItsCompositeMeanwhileIsReadAgain(t *testing.T) {
	c := newPlane(namespaces, crds, graphs, compositions)
	shop := object.Key{Group: "shop.example.org", Kind: "Shop", Namespace: "prod", Name: "corner"}
	c.Before = func(request string) error {
		if request == "list XShop " {
			c.Change(shop, func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "corner-x", "spec", "resourceRef", "name")
			})
		}
		return nil
	}
	file := export(t, newExport(c))
	if name, _, _ := unstructured.NestedString(find(file, shop).Object, "spec", "resourceRef", "name"); name != "corner-x" {
		t.Errorf("the claim names the composite %q", name)
	}
}

// TestAnExportFailsWhereARequestFails fails each request of an export in turn.
func TestAnExportFailsWhereARequestFails(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	c := newPlane(namespaces, crds, graphs, compositions)
	c.Change(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-db-1"}, phase("Deleting"))
	e := newExport(c)
	e.Secrets = true
	var requests int
	c.Before = func(string) error { requests++; return nil }
	export(t, e)
	for n := 1; n <= requests; n++ {
		request, count := "", 0
		c.Before = func(r string) error {
			if count++; count == n {
				request = r
				return denied
			}
			return nil
		}
		again := newExport(c)
		again.Secrets = true
		var out bytes.Buffer
		if _, err := again.Run(context.Background(), &out); !errors.Is(err, denied) || out.Len() > 0 {
			t.Errorf("%q fails: got %v, and %d bytes", request, err, out.Len())
		}
	}
	if requests < 30 {
		t.Errorf("the export makes only %d requests", requests)
	}
}

// TestAnExportFailsWhereItsTemporaryFileCannotBeRead truncates the file before the Bindings of a
// managed resource that was deleted meanwhile are dropped, and before the export is written.
func TestAnExportFailsWhereItsTemporaryFileCannotBeRead(t *testing.T) {
	c := newPlane(namespaces, crds, graphs)
	c.Change(object.Key{Group: bindingKind.Group, Kind: "Binding", Name: "u-db-1"}, phase("Deleting"))
	e := newExport(c)
	c.Before = func(request string) error {
		if request != "get Database prod/web" {
			return nil
		}
		c.Remove(databaseKey)
		return e.spool.file.Truncate(0)
	}
	if _, err := e.Run(context.Background(), &bytes.Buffer{}); !errors.Is(err, io.EOF) {
		t.Errorf("dropping Bindings: %v", err)
	}

	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.put(archive.Managed, c.Object(object.Key{Group: "cloud.example.org", Kind: "Database", Namespace: "dev", Name: "alone"})); err != nil {
		t.Fatal(err)
	}
	if err := s.file.Truncate(1); err != nil {
		t.Fatal(err)
	}
	if err := s.copyTo(io.Discard, nil); !errors.Is(err, io.EOF) {
		t.Errorf("writing the export: %v", err)
	}
}

func TestAnExportIsRefused(t *testing.T) {
	c := newPlane(crds)
	if _, err := newExport(c).Run(context.Background(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "kube-system") {
		t.Errorf("without the namespace kube-system: %v", err)
	}
	c = newPlane(namespaces, crds, graphs)
	e := newExport(c)
	e.Selection.Definitions = []string{"apps", "none", "nothing"}
	if _, err := e.Run(context.Background(), &bytes.Buffer{}); err == nil || err.Error() != "definitions none, nothing not found" {
		t.Errorf("definitions that do not exist: %v", err)
	}
	if _, err := newExport(c).Run(context.Background(), full{}); !errors.Is(err, errFull) {
		t.Errorf("disk full: %v", err)
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
