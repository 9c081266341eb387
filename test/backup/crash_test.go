package backup

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/backup"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestSweepAnImportDiesAfterEveryWrite loses a cluster and restores it, with
// controllers running, the import dying after its n-th write and being run again.
func TestSweepAnImportDiesAfterEveryWrite(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	raw := p.export(t, archive.Selection{Namespaces: []string{p.ns}, Definitions: nil})
	there, made, bound := serials(sky), countEffects(sky, cloud.VerbCreate), len(p.bindings(t))
	stop := p.run(t, sky)
	defer stop()
	lives, step := 0, testkit.Size(18, 1)
	writes := p.reimport(t, raw, 0, p.loseStock)
	for n := 1; n <= writes && !t.Failed(); n += step {
		if got := p.reimport(t, raw, n, p.loseStock); got < n {
			t.Errorf("crash at %d: there were %d writes only", n, got)
		}
		p.awaitStock(t)
		if diff := cmp.Diff(there, serials(sky)); diff != "" {
			t.Errorf("crash at %d: in the cloud, -before +after:\n%s", n, diff)
		}
		if again := countEffects(sky, cloud.VerbCreate); again != made {
			t.Errorf("crash at %d: the cloud was asked for %d creations", n, again-made)
		}
		p.checkBindings(t, bound)
		lives++
	}
	testkit.Report(t, "export: %d imports of %d writes, dying after one and run again", lives, writes)
	p.deleteStock(t, sky)
}

// reimport loses everything but the cloud and imports it, with a crash after the n-th
// write, and returns how many there were.
func (p plane) reimport(t *testing.T, raw []byte, n int, lose func(*testing.T)) int {
	t.Helper()
	lose(t)
	crash := testkit.NewCrash(n)
	crash.Log = func(what string) { t.Logf("%d: %s", n, what) }
	err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context())
	switch {
	case n == 0 && err != nil:
		t.Fatal(err)
	case n == 0:
		return crash.Writes()
	case !errors.Is(err, testkit.ErrCrashed):
		t.Fatalf("crash at %d: %v", n, err)
	}
	if h := p.Get(t, hold, "", archive.HoldName("x"+p.ns)); h == nil && n < crash.Writes() {
		t.Errorf("crash at %d: nothing is held", n)
	}
	if err := p.importer(t, p.config, raw, "second").Run(t.Context()); err != nil {
		t.Fatalf("after a crash at %d: %v", n, err)
	}
	if h := p.Get(t, hold, "", archive.HoldName("x"+p.ns)); h != nil {
		t.Errorf("crash at %d: the Hold is left", n)
	}
	return crash.Writes()
}

// deleteStock deletes the stock.
func (p plane) deleteStock(t *testing.T, sky *cloud.Cloud) {
	t.Helper()
	for _, o := range []struct {
		kind string
		name string
	}{{"Store", p.storeName()}, {"Bucket", p.bucketName()}} {
		gvk := p.kind(o.kind)
		if o.kind == "Bucket" {
			gvk = bucket
		}
		if p.Get(t, gvk, p.ns, o.name) != nil {
			p.Delete(t, gvk, p.ns, o.name)
		}
		p.AwaitGone(t, gvk, p.ns, o.name)
	}
	if left := serials(sky); len(left) > 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	p.awaitNoBindings(t)
	for _, name := range []string{"$ID-a-store", "$ID-shelf"} {
		p.Delete(t, suite.RGD, "", p.expand(name))
		p.AwaitGone(t, suite.RGD, "", p.expand(name))
	}
}

func TestOneOfTwoConcurrentImportsSucceeds(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	made := countEffects(sky, cloud.VerbCreate)
	stop := p.run(t, sky)
	defer stop()
	p.loseStock(t)
	ends := make(chan error, 2)
	for _, holder := range []string{"one", "other"} {
		i := p.importer(t, p.config, raw, holder)
		go func() { ends <- i.Run(t.Context()) }()
	}
	well := 0
	for range 2 {
		switch err := <-ends; {
		case err == nil:
			well++
		case !errors.Is(err, backup.ErrTakenOver):
			t.Errorf("it ended with: %v", err)
		}
	}
	if well == 0 {
		t.Error("neither has ended well")
	}
	p.awaitStock(t)
	if again := countEffects(sky, cloud.VerbCreate); again != made {
		t.Errorf("the cloud was asked for %d creations", again-made)
	}
	p.deleteStock(t, sky)
}

// TestAnImportIsTakenBack crashes one and takes it back: the cloud stays as it is, and
// a later import has all of it again.
func TestAnImportIsTakenBack(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	there := serials(sky)
	stop := p.run(t, sky)
	defer stop()
	if err := p.importer(t, p.config, raw, "x").Abort(t.Context()); !errors.Is(err, backup.ErrNothingHeld) {
		t.Errorf("taking back what is not under way ends with: %v", err)
	}
	p.loseStock(t)
	crash := testkit.NewCrash(18)
	if err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)); n == 0 {
		t.Fatal("it has made no bucket yet")
	}
	if err := p.importer(t, p.config, raw, "second").Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)) + len(p.bindings(t)) + len(p.list(t, hold, "")); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	err := testkit.AwaitList(t.Context(), p.Resource(t, suite.RGD, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		if objects["/"+p.expand("$ID-shelf")] != nil {
			return errors.New("a definition is left")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(there, serials(sky)); diff != "" {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	p.deleteStock(t, sky)
}
