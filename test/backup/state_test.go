package backup

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/backup"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestOperationsInFlightContinueAfterAnImport exports while one resource is being made, one
// deleted, and the rest is as it is; meanwhile a user changes one in the cloud and
// takes another away.
func TestOperationsInFlightContinueAfterAnImport(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	stop := p.run(t, sky)
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: going-$NS, namespace: $NS}\nspec: {forProvider: {}}\n")
	p.AwaitReady(t, bucket, p.ns, "going-"+p.ns)
	sky.SetBehaviour(cloud.TypeNetwork, cloud.Behaviour{Naming: cloud.ProviderAssigned, CreateTime: 4 * time.Second})
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Network\nmetadata: {name: coming-$NS, namespace: $NS}\nspec: {forProvider: {cidr: 10.1.0.0/16}}\n")
	p.Await(t, network, p.ns, "coming-"+p.ns, func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Synced") != "OperationInProgress" {
			return errors.New("isn't being made")
		}
		return nil
	})
	stop()
	p.Delete(t, bucket, p.ns, "going-"+p.ns)
	raw := p.export(t, archive.Selection{})
	made := countEffects(sky, cloud.VerbCreate)

	stop = p.run(t, sky)
	defer stop()
	p.loseStock(t)
	if err := sky.Admin().Change(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.storeName()}, cloud.Properties{Versioning: false}); err != nil {
		t.Fatal(err)
	}
	if err := sky.Admin().Delete(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.bucketName()}); err != nil {
		t.Fatal(err)
	}
	if err := p.importer(t, p.config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.AwaitGone(t, bucket, p.ns, "going-"+p.ns)
	p.AwaitReady(t, network, p.ns, "coming-"+p.ns)
	p.awaitStock(t)
	r, err := sky.Get(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: p.storeName()})
	if err != nil || !r.Properties.Versioning {
		t.Errorf("what was changed is %+v, %v", r, err)
	}
	if again := countEffects(sky, cloud.VerbCreate) - made; again != 1 {
		t.Errorf("the cloud was asked for %d creations, not only for what was taken away", again)
	}
	p.Delete(t, network, p.ns, "coming-"+p.ns)
	p.AwaitGone(t, network, p.ns, "coming-"+p.ns)
	p.deleteStock(t, sky)
}

// TestNothingIsOverwritten imports where something is in the way: all of it is reported at
// once, and nothing is written.
func TestNothingIsOverwritten(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	stop := p.run(t, sky)
	defer stop()
	p.loseStock(t)
	p.putHold(t, "still")
	p.awaitSuspended(t, "still")
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
	crash := testkit.NewCrash(0)
	err := p.importer(t, crash.Wrap(p.config), raw, "x").Run(t.Context())
	var problems *backup.ProblemsError
	if !errors.As(err, &problems) || crash.Writes() > 0 {
		t.Fatalf("after %d writes it ended with: %v", crash.Writes(), err)
	}
	for _, words := range []string{
		"Bucket " + p.ns + "/alone-" + p.ns + " is there already and differs in ",
		"metadata.annotations[example.com/of]", "spec.forProvider.versioning",
		"is taken by Bucket " + p.ns + "/another",
	} {
		if !strings.Contains(err.Error(), words) && len(problems.Problems) > 0 {
			t.Errorf("it does not say %q:\n%v", words, err)
		}
	}
	p.Delete(t, binding, "", taken)
	p.erase(t, p.Get(t, bucket, p.ns, p.bucketName()))
	p.Delete(t, hold, "", "still")
	if err := p.importer(t, p.config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	p.deleteStock(t, sky)
}
