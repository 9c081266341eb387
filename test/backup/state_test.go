package backup

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestOperationsInFlightContinueAfterAnImport exports while one resource is being created and one is
// being deleted; before the import, a user changes one resource in the cloud and deletes another.
func TestOperationsInFlightContinueAfterAnImport(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	stop := p.run(t, fakeCloud)
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: deleted-$NS, namespace: $NS}\nspec: {forProvider: {}}\n")
	p.AwaitReady(t, bucket, p.ns, "deleted-"+p.ns)
	fakeCloud.SetBehaviour(cloud.TypeNetwork, cloud.Behaviour{Naming: cloud.ProviderAssigned, CreateTime: 4 * time.Second})
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Network\nmetadata: {name: created-$NS, namespace: $NS}\nspec: {forProvider: {cidr: 10.1.0.0/16}}\n")
	p.Await(t, network, p.ns, "created-"+p.ns, func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Synced") != "OperationInProgress" {
			return errors.New("is not being created")
		}
		return nil
	})
	stop()
	p.Delete(t, bucket, p.ns, "deleted-"+p.ns)
	raw := p.export(t, archive.Selection{})
	made := countEffects(fakeCloud, cloud.VerbCreate)

	stop = p.run(t, fakeCloud)
	defer stop()
	p.loseStock(t)
	if err := fakeCloud.Admin().Change(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.storeName()}, cloud.Properties{Versioning: false}); err != nil {
		t.Fatal(err)
	}
	if err := fakeCloud.Admin().Delete(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.bucketName()}); err != nil {
		t.Fatal(err)
	}
	if err := p.importer(t, p.config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.AwaitGone(t, bucket, p.ns, "deleted-"+p.ns)
	p.AwaitReady(t, network, p.ns, "created-"+p.ns)
	p.awaitStock(t)
	r, err := fakeCloud.Get(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.storeName()})
	if err != nil || !r.Properties.Versioning {
		t.Errorf("the changed bucket is %+v, %v", r, err)
	}
	if again := countEffects(fakeCloud, cloud.VerbCreate) - made; again != 1 {
		t.Errorf("the cloud got %d more creations, not one for the deleted bucket", again)
	}
	p.Delete(t, network, p.ns, "created-"+p.ns)
	p.AwaitGone(t, network, p.ns, "created-"+p.ns)
	p.deleteStock(t, fakeCloud)
}

// TestTheCallsOfAnArchiveAreNotMade imports an export in which somebody has written operations in
// flight: with a token of theirs, a creation whose request names another range, an update that
// turns off versioning, and a deletion. The cloud gets none of these calls.
func TestTheCallsOfAnArchiveAreNotMade(t *testing.T) {
	fakeCloud := newCloud()
	fakeCloud.SetBehaviour(cloud.TypeNetwork, cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour})
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	there := serials(fakeCloud)
	effects := func() [3]int {
		return [3]int{countEffects(fakeCloud, cloud.VerbCreate), countEffects(fakeCloud, cloud.VerbUpdate), countEffects(fakeCloud, cloud.VerbDelete)}
	}
	before := effects()
	stop := p.run(t, fakeCloud)
	defer stop()
	p.loseStock(t)
	i := p.importer(t, p.config, raw, "x")
	for _, b := range i.File.Sections[archive.Bindings] {
		operation := map[string]any{
			"attempt": int64(7), "token": "archived", "startedAt": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
			"request": base64.StdEncoding.EncodeToString([]byte(`{"cidr":"10.66.0.0/16","versioning":false}`)),
		}
		owner, _ := archive.Owner(b)
		switch {
		case b.GetLabels()["espalier.dev/reservation"] != "":
			continue
		case owner.Kind == "Network":
			operation["verb"] = "Create"
			unstructured.RemoveNestedField(b.Object, "spec", "ref")
			_ = unstructured.SetNestedField(b.Object, "Creating", "spec", "phase")
		case owner.Name == p.storeName():
			operation["verb"] = "Update"
			_ = unstructured.SetNestedField(b.Object, "Updating", "spec", "phase")
		default:
			operation["verb"] = "Delete"
			_ = unstructured.SetNestedField(b.Object, "Deleting", "spec", "phase")
		}
		_ = unstructured.SetNestedMap(b.Object, operation, "spec", "operation")
	}
	if err := i.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.AwaitList(t, binding, "", "", func(map[string]*unstructured.Unstructured) error {
		for _, b := range p.bindings(t) {
			if archive.HasOperation(b) {
				return errors.New("an operation is in flight")
			}
		}
		return nil
	})
	p.awaitStock(t)
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" || effects() != before {
		t.Errorf("creations, updates and deletions were %v and are %v; in the cloud, -before +after:\n%s", before, effects(), diff)
	}
	p.deleteStock(t, fakeCloud)
}

// TestNothingIsOverwritten imports where objects and Bindings conflict with the export: the import
// reports all conflicts at once, and writes nothing.
func TestNothingIsOverwritten(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	stop := p.run(t, fakeCloud)
	defer stop()
	p.loseStock(t)
	p.createHold(t, "conflict")
	p.awaitSuspended(t, "conflict")
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: alone-$NS, namespace: $NS}\nspec: {forProvider: {versioning: true}}\n")
	var taken string
	for _, o := range p.importer(t, p.config, raw, "x").File.Sections[archive.Bindings] {
		if owner, _ := archive.Owner(o); owner.Name == p.storeName() && owner.Kind == "Bucket" {
			theirs := archive.Imported(o, "")
			_ = unstructured.SetNestedField(theirs.Object, "another", "spec", "owner", "name")
			if _, err := p.Resource(t, binding, "").Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			taken = theirs.GetName()
		}
	}
	if taken == "" {
		t.Fatal("the export has no Binding of the bucket")
	}
	crash := testkit.NewCrash(0)
	err := p.importer(t, crash.Wrap(p.config), raw, "x").Run(t.Context())
	var problems *backup.ProblemsError
	if !errors.As(err, &problems) || crash.Writes() > 0 {
		t.Fatalf("after %d writes the import ended with %v", crash.Writes(), err)
	}
	for _, words := range []string{
		"Bucket " + p.ns + "/alone-" + p.ns + " exists; an import overwrites nothing",
		"of Bucket " + p.ns + "/another in phase ",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not contain %q:\n%v", words, err)
		}
	}
	p.Delete(t, binding, "", taken)
	p.erase(t, p.Get(t, bucket, p.ns, p.bucketName()))
	p.Delete(t, hold, "", "conflict")
	if err := p.importer(t, p.config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	p.deleteStock(t, fakeCloud)
}
