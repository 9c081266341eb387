package backup

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestSweepAnImportCrashesAfterEveryWrite deletes the objects of a cluster and imports them, while
// controllers run, with a crash of the import after its n-th write, an abort, and another import.
func TestSweepAnImportCrashesAfterEveryWrite(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{Namespaces: []string{p.ns}, Definitions: nil})
	there, made, bound := serials(fakeCloud), countEffects(fakeCloud, cloud.VerbCreate), len(p.bindings(t))
	stop := p.run(t, fakeCloud)
	defer stop()
	imports, step := 0, testkit.Size(18, 1)
	writes := p.reimport(t, raw, 0, p.loseStock)
	for n := 1; n <= writes && !t.Failed(); n += step {
		if got := p.reimport(t, raw, n, p.loseStock); got < n {
			t.Errorf("crash at %d: the import made only %d writes", n, got)
		}
		p.awaitStock(t)
		if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
			t.Errorf("crash at %d: in the cloud, -before +after:\n%s", n, diff)
		}
		if again := countEffects(fakeCloud, cloud.VerbCreate); again != made {
			t.Errorf("crash at %d: the cloud got %d more creations", n, again-made)
		}
		p.checkBindings(t, bound)
		imports++
	}
	testkit.Report(t, "export: %d imports of %d writes, with a crash and a repetition", imports, writes)
	p.deleteStock(t, fakeCloud)
}

// reimport deletes everything but the cloud's resources and imports it, with a crash after the n-th
// write, and returns the number of writes.
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
		t.Errorf("crash at %d: there is no Hold", n)
	}
	if p.Get(t, hold, "", archive.HoldName("x"+p.ns)) == nil {
		return crash.Writes() // its deletion was the last write
	}
	p.abort(t, raw)
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatalf("after a crash at %d and an abort: %v", n, err)
	}
	if h := p.Get(t, hold, "", archive.HoldName("x"+p.ns)); h != nil {
		t.Errorf("crash at %d: the Hold remains", n)
	}
	return crash.Writes()
}

// abort aborts an import, and waits until its definitions are gone.
func (p plane) abort(t *testing.T, raw []byte) {
	t.Helper()
	i := p.importer(t, p.config, raw, "second")
	if err := i.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range i.File.Sections[archive.Definitions] {
		p.AwaitGone(t, d.GroupVersionKind(), d.GetNamespace(), d.GetName())
	}
}

// deleteStock deletes the stock.
func (p plane) deleteStock(t *testing.T, fakeCloud *cloud.Cloud) {
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
	if left := serials(fakeCloud); len(left) > 0 {
		t.Errorf("the cloud still has %v", left)
	}
	p.awaitNoBindings(t)
	for _, name := range []string{"$ID-a-store", "$ID-shelf"} {
		p.Delete(t, suite.RGD, "", p.expand(name))
		p.AwaitGone(t, suite.RGD, "", p.expand(name))
	}
}

// TestOneOfTwoConcurrentImportsSucceeds runs two imports at once.
func TestOneOfTwoConcurrentImportsSucceeds(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	made := countEffects(fakeCloud, cloud.VerbCreate)
	stop := p.run(t, fakeCloud)
	defer stop()
	p.loseStock(t)
	ends := make(chan error, 2)
	for _, holder := range []string{"one", "other"} {
		i := p.importer(t, p.config, raw, holder)
		go func() { ends <- i.Run(t.Context()) }()
	}
	succeeded := 0
	for range 2 {
		switch err := <-ends; {
		case err == nil:
			succeeded++
		case !apierrors.IsAlreadyExists(err) && !errors.As(err, new(*backup.ProblemsError)):
			t.Errorf("an import ended with %v", err)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d imports succeeded", succeeded)
	}
	p.awaitStock(t)
	if again := countEffects(fakeCloud, cloud.VerbCreate); again != made {
		t.Errorf("the cloud got %d more creations", again-made)
	}
	p.deleteStock(t, fakeCloud)
}

// TestAnImportIsAborted crashes an import and aborts it: the cloud is unchanged, and a later import
// restores all objects.
func TestAnImportIsAborted(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	there := serials(fakeCloud)
	stop := p.run(t, fakeCloud)
	defer stop()
	if err := p.importer(t, p.config, raw, "x").Abort(t.Context()); !errors.Is(err, backup.ErrNothingHeld) {
		t.Errorf("aborting an import that is not in progress ends with: %v", err)
	}
	p.loseStock(t)
	buckets := 0
	crash := testkit.NewCrashBefore(func(_ int, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/buckets") {
			buckets++
		}
		return buckets == 2
	})
	if err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)); n == 0 {
		t.Fatal("the import has created no bucket yet")
	}
	if err := p.importer(t, p.config, raw, "second").Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)) + len(p.bindings(t)) + len(p.list(t, hold, "")); n > 0 {
		t.Errorf("%d objects remain", n)
	}
	p.AwaitList(t, suite.RGD, "", "", func(objects map[string]*unstructured.Unstructured) error {
		for _, name := range []string{"$ID-a-store", "$ID-shelf"} {
			if objects["/"+p.expand(name)] != nil {
				return errors.New("a definition remains")
			}
		}
		return nil
	})
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	p.deleteStock(t, fakeCloud)
}
