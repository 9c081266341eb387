package backup

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// countAllEffects counts the creates, updates and deletes that changed the cloud.
func countAllEffects(fakeCloud *cloud.Cloud) [3]int {
	return [3]int{countEffects(fakeCloud, cloud.VerbCreate), countEffects(fakeCloud, cloud.VerbUpdate), countEffects(fakeCloud, cloud.VerbDelete)}
}

// TestCompositesMoveToAnotherCluster exports composites and imports them on another API server, where
// nothing is created, changed or deleted in the cloud.
func TestCompositesMoveToAnotherCluster(t *testing.T) {
	fakeCloud := newCloud()
	from := newMarketPlane(t, fakeCloud)
	there, done, had := serials(fakeCloud), countAllEffects(fakeCloud), from.inventory(t)
	file := filepath.Join(t.TempDir(), "export.yaml")
	if code, _, errs := from.runCLI(t, "export", "--output", file, "-n", from.ns); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to := newPlane(t, testkit.AnotherServer(t)).withNames(from.ns, from.group)
	stop := to.run(t, fakeCloud)
	defer func() { stop() }()
	t.Log("without a provider: functions see the imported statuses of managed resources")
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
	stop = to.run(t, fakeCloud)
	checkUnchanged := func(when string) {
		t.Helper()
		to.awaitMarket(t)
		sleep(time.Second)
		if diff := cmp.Diff(had, to.inventory(t)); diff != "" {
			t.Errorf("%s, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(done, countAllEffects(fakeCloud)); diff != "" {
			t.Errorf("%s: creations, updates and deletions, -before +after:\n%s", when, diff)
		}
		to.checkBindings(t, len(from.bindings(t)))
	}
	checkUnchanged("imported")
	for _, gvk := range managedOfMarket {
		for key, o := range to.list(t, gvk, to.ns) {
			if got, want := managers(o), managers(from.list(t, gvk, from.ns)[key]); !cmp.Equal(got, want) {
				t.Errorf("the fields of %s %s are owned by %v, and were by %v", gvk.Kind, key, got, want)
			}
		}
	}
	if code, _, errs := to.runCLI(t, "import", file); code != 3 || !strings.Contains(errs, "exists; an import overwrites nothing") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	stop()
	stop = to.run(t, fakeCloud)
	checkUnchanged("restarted")

	t.Log("a new revision reaches the composite with automatic updates only")
	to.apply(t, strings.Replace(stalls, "versioning: false", "versioning: true, public: true", 1))
	to.Await(t, to.kind("Stall"), to.ns, "follows", fieldChanged(to.Get(t, to.kind("Stall"), to.ns, "follows"), "spec", "crossplane", "compositionRevisionRef", "name"))
	before := field(from.Get(t, from.kind("Stall"), from.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	if got := field(to.Get(t, to.kind("Stall"), to.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name"); got != before {
		t.Errorf("the revision of a composite with manual updates was %s and is %s", before, got)
	}
	to.awaitMarket(t)
	to.deleteMarket(t, fakeCloud)

	from.eraseMarket(t) // the next test has another cloud
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		from.erase(t, from.Get(t, xrd, "", name+from.group))
	}
}

// TestSweepAnImportOfCompositesCrashesAfterEveryWrite deletes composites and imports them, with a crash
// of the import after its n-th write and another import.
func TestSweepAnImportOfCompositesCrashesAfterEveryWrite(t *testing.T) {
	fakeCloud := newCloud()
	p := newMarketPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	there, done, had, bound := serials(fakeCloud), countAllEffects(fakeCloud), p.inventory(t), len(p.bindings(t))
	stop := p.run(t, fakeCloud)
	defer stop()
	imports, step := 0, testkit.Size(52, 1)
	writes := p.reimport(t, raw, 0, p.loseMarket)
	for n := 1; n <= writes && !t.Failed(); n += step {
		if got := p.reimport(t, raw, n, p.loseMarket); got < n {
			t.Errorf("crash at %d: the import made only %d writes", n, got)
		}
		p.awaitMarket(t)
		if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
			t.Errorf("crash at %d: -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
			t.Errorf("crash at %d: in the cloud, -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(done, countAllEffects(fakeCloud)); diff != "" {
			t.Errorf("crash at %d: creations, updates and deletions, -before +after:\n%s", n, diff)
		}
		p.checkBindings(t, bound)
		imports++
	}
	testkit.Report(t, "export: %d imports of composites of %d writes, with a crash and a repetition", imports, writes)
	p.deleteMarket(t, fakeCloud)
}

// TestAnImportOfCompositesIsAborted crashes an import near its end and aborts it: the cloud is unchanged,
// and a later import restores all objects.
func TestAnImportOfCompositesIsAborted(t *testing.T) {
	fakeCloud := newCloud()
	p := newMarketPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	there, done, had := serials(fakeCloud), countAllEffects(fakeCloud), p.inventory(t)
	stop := p.run(t, fakeCloud)
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
		t.Errorf("%d objects remain", n)
	}
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitMarket(t)
	if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if diff := cmp.Diff(done, countAllEffects(fakeCloud)); diff != "" {
		t.Errorf("creations, updates and deletions, -before +after:\n%s", diff)
	}
	p.deleteMarket(t, fakeCloud)
}

// TestADefinitionIsExportedWithItsDependencies exports one definition, with its composites and what
// they depend on.
func TestADefinitionIsExportedWithItsDependencies(t *testing.T) {
	fakeCloud := newCloud()
	p := newMarketPlane(t, fakeCloud)
	got := p.contents(t, p.export(t, archive.Selection{Definitions: []string{"xshops." + p.group}}))
	for i, text := range got { // names with digests are left out
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
	stop := p.run(t, fakeCloud)
	defer stop()
	p.deleteMarket(t, fakeCloud)
}
