package backup

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// countAllEffects counts the creates, updates and deletes that changed the cloud.
func countAllEffects(sky *cloud.Cloud) [3]int {
	return [3]int{countEffects(sky, cloud.VerbCreate), countEffects(sky, cloud.VerbUpdate), countEffects(sky, cloud.VerbDelete)}
}

func TestCompositesMoveToAnotherCluster(t *testing.T) {
	sky := newCloud()
	from := newMarketPlane(t, sky)
	there, done, had := serials(sky), countAllEffects(sky), from.inventory(t)
	file := filepath.Join(t.TempDir(), "export.yaml")
	if code, _, errs := from.runCLI(t, "export", "--output", file, "-n", from.ns); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to := newPlane(t, testkit.AnotherServer(t)).withNames(from.ns, from.group)
	stop := to.run(t, sky)
	defer func() { stop() }()
	t.Log("functions see what there was before the managed resources have told it again")
	stop()
	stop = to.run(t, nil)
	if code, _, errs := to.runCLI(t, "import", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to.awaitMarket(t)
	if diff := cmp.Diff(had, to.inventory(t)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	stop()
	stop = to.run(t, sky)
	same := func(when string) {
		t.Helper()
		to.awaitMarket(t)
		sleep(time.Second)
		if diff := cmp.Diff(had, to.inventory(t)); diff != "" {
			t.Errorf("%s, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(there, serials(sky)); diff != "" {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(done, countAllEffects(sky)); diff != "" {
			t.Errorf("%s: creations, updates and deletions, -before +after:\n%s", when, diff)
		}
		to.checkBindings(t, len(from.bindings(t)))
	}
	same("imported")
	for _, gvk := range managedOfMarket {
		for key, o := range to.list(t, gvk, to.ns) {
			if got, want := managers(o), managers(from.list(t, gvk, from.ns)[key]); !cmp.Equal(got, want) {
				t.Errorf("the fields of %s %s are owned by %v, and were by %v", gvk.Kind, key, got, want)
			}
		}
	}
	if code, _, errs := to.runCLI(t, "import", file); code != 0 || !strings.Contains(errs, "everything is there already") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	stop()
	stop = to.run(t, sky)
	same("started again")

	t.Log("who follows continues to follow, who stays stays")
	to.apply(t, strings.Replace(stalls, "versioning: false", "versioning: true, public: true", 1))
	to.Await(t, to.kind("Stall"), to.ns, "follows", fieldChanged(to.Get(t, to.kind("Stall"), to.ns, "follows"), "spec", "crossplane", "compositionRevisionRef", "name"))
	before := field(from.Get(t, from.kind("Stall"), from.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	if got := field(to.Get(t, to.kind("Stall"), to.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name"); got != before {
		t.Errorf("it was to stay with %s and is composed by %s", before, got)
	}
	to.awaitMarket(t)
	to.deleteMarket(t, sky)

	from.eraseMarket(t) // the next test's cloud is another
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		from.erase(t, from.Get(t, xrd, "", name+from.group))
	}
}

func TestSweepAnImportOfCompositesDiesAfterEveryWrite(t *testing.T) {
	sky := newCloud()
	p := newMarketPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	there, done, had, bound := serials(sky), countAllEffects(sky), p.inventory(t), len(p.bindings(t))
	stop := p.run(t, sky)
	defer stop()
	lives, step := 0, testkit.Size(52, 1)
	writes := p.reimport(t, raw, 0, p.loseMarket)
	for n := 1; n <= writes && !t.Failed(); n += step {
		if got := p.reimport(t, raw, n, p.loseMarket); got < n {
			t.Errorf("crash at %d: there were %d writes only", n, got)
		}
		p.awaitMarket(t)
		if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
			t.Errorf("crash at %d: -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(there, serials(sky)); diff != "" {
			t.Errorf("crash at %d: in the cloud, -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(done, countAllEffects(sky)); diff != "" {
			t.Errorf("crash at %d: creations, updates and deletions, -before +after:\n%s", n, diff)
		}
		p.checkBindings(t, bound)
		lives++
	}
	testkit.Report(t, "export: %d imports of composites of %d writes, dying after one and run again", lives, writes)
	p.deleteMarket(t, sky)
}

// TestAnImportOfCompositesIsTakenBack crashes one late and takes it back: the cloud stays as
// it is, and a later import has all of it again, also where the compositions were put there
// before.
func TestAnImportOfCompositesIsTakenBack(t *testing.T) {
	sky := newCloud()
	p := newMarketPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	there, done, had := serials(sky), countAllEffects(sky), p.inventory(t)
	stop := p.run(t, sky)
	defer stop()
	writes := p.reimport(t, raw, 0, p.loseMarket)
	p.awaitMarket(t)
	p.loseMarket(t)
	crash := testkit.NewCrash(writes - 2)
	if err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if err := p.importer(t, p.config, raw, "second").Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		p.AwaitGone(t, xrd, "", name+p.group)
	}
	if n := len(p.list(t, composition, "")) + len(p.list(t, revision, "")) + len(p.list(t, bucket, p.ns)) + len(p.bindings(t)) + len(p.list(t, hold, "")); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	if diff := cmp.Diff(there, serials(sky)); diff != "" {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	p.apply(t, strings.Replace(stalls, "versioning: false", "versioning: true", 1))
	p.awaitRevision(t)
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitMarket(t)
	if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if diff := cmp.Diff(done, countAllEffects(sky)); diff != "" {
		t.Errorf("creations, updates and deletions, -before +after:\n%s", diff)
	}
	p.deleteMarket(t, sky)
}

func TestADefinitionIsExportedWithItsDependencies(t *testing.T) {
	sky := newCloud()
	p := newMarketPlane(t, sky)
	got := p.contents(t, p.export(t, archive.Selection{Definitions: []string{"xshops." + p.group}}))
	for i, text := range got { // what follows from digests is left out
		kind, name, _ := strings.Cut(text, " ")
		switch kind {
		case "Bucket", "Network", "Role", "Binding", "XShop", "Counter", "CompositionRevision":
			name = ""
		}
		got[i] = strings.TrimSpace(kind + " " + name)
	}
	want := []string{
		"Namespace NS", "EnvironmentConfig fairground", "Function function-patch-and-transform", "CompositionRevision", "Composition ID-counter", "Composition ID-shop",
		"CompositeResourceDefinition counters.ID.example.com", "CompositeResourceDefinition xshops.ID.example.com",
		"Bucket", "Network", "Role", "Binding", "Counter", "Shop shop", "XShop",
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	stop := p.run(t, sky)
	defer stop()
	p.deleteMarket(t, sky)
}
