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

// effects counts what was asked of the cloud that had one.
func effects(sky *cloud.Cloud) [3]int {
	return [3]int{calls(sky, cloud.VerbCreate), calls(sky, cloud.VerbUpdate), calls(sky, cloud.VerbDelete)}
}

func TestCompositesMoveToAnotherCluster(t *testing.T) {
	sky := open()
	from := traded(t, sky)
	there, done, had := serials(sky), effects(sky), from.inventory(t)
	file := filepath.Join(t.TempDir(), "export.yaml")
	if code, _, errs := from.call(t, "export", "--output", file, "-n", from.ns); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to := newPlane(t, testkit.Another(t)).in(from.ns, from.group)
	stop := to.run(t, sky)
	defer func() { stop() }()
	t.Log("functions see what there was before the managed resources have told it again")
	stop()
	stop = to.run(t, nil)
	if code, _, errs := to.call(t, "import", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to.trades(t)
	if diff := cmp.Diff(had, to.inventory(t)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	stop()
	stop = to.run(t, sky)
	same := func(when string) {
		t.Helper()
		to.trades(t)
		after(time.Second)
		if diff := cmp.Diff(had, to.inventory(t)); diff != "" {
			t.Errorf("%s, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(there, serials(sky)); diff != "" {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
		if diff := cmp.Diff(done, effects(sky)); diff != "" {
			t.Errorf("%s: creations, updates and deletions, -before +after:\n%s", when, diff)
		}
		to.bound(t, len(from.bindings(t)))
	}
	same("imported")
	for _, gvk := range managedOfMarket {
		for key, o := range to.list(t, gvk, to.ns) {
			if got, want := managers(o), managers(from.list(t, gvk, from.ns)[key]); !cmp.Equal(got, want) {
				t.Errorf("the fields of %s %s are owned by %v, and were by %v", gvk.Kind, key, got, want)
			}
		}
	}
	if code, _, errs := to.call(t, "import", file); code != 0 || !strings.Contains(errs, "everything is there already") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	stop()
	stop = to.run(t, sky)
	same("started again")

	t.Log("who follows goes on to follow, who stays stays")
	to.put(t, strings.Replace(stalls, "versioning: false", "versioning: true, public: true", 1))
	to.Await(t, to.kind("Stall"), to.ns, "follows", changed(to.Get(t, to.kind("Stall"), to.ns, "follows"), "spec", "crossplane", "compositionRevisionRef", "name"))
	before := field(from.Get(t, from.kind("Stall"), from.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	if got := field(to.Get(t, to.kind("Stall"), to.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name"); got != before {
		t.Errorf("it was to stay with %s and is composed by %s", before, got)
	}
	to.trades(t)
	to.sell(t, sky)

	from.eraseMarket(t) // the next test's cloud is another
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		from.erase(t, from.Get(t, xrd, "", name+from.group))
	}
}

func TestSweepAnImportOfCompositesDiesAfterEveryWrite(t *testing.T) {
	sky := open()
	p := traded(t, sky)
	raw := p.export(t, archive.Selection{})
	there, done, had, bound := serials(sky), effects(sky), p.inventory(t), len(p.bindings(t))
	stop := p.run(t, sky)
	defer stop()
	lives, step := 0, testkit.Size(52, 1)
	writes := p.reimport(t, raw, 0, p.close)
	for n := 1; n <= writes && !t.Failed(); n += step {
		if got := p.reimport(t, raw, n, p.close); got < n {
			t.Errorf("crash at %d: there were %d writes only", n, got)
		}
		p.trades(t)
		if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
			t.Errorf("crash at %d: -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(there, serials(sky)); diff != "" {
			t.Errorf("crash at %d: in the cloud, -before +after:\n%s", n, diff)
		}
		if diff := cmp.Diff(done, effects(sky)); diff != "" {
			t.Errorf("crash at %d: creations, updates and deletions, -before +after:\n%s", n, diff)
		}
		p.bound(t, bound)
		lives++
	}
	testkit.Say(t, "export: %d imports of composites of %d writes, dying after one and run again", lives, writes)
	p.sell(t, sky)
}

// TestAnImportOfCompositesIsTakenBack crashes one late and takes it back: the cloud stays as
// it is, and a later import has all of it again, also where the compositions were put there
// before.
func TestAnImportOfCompositesIsTakenBack(t *testing.T) {
	sky := open()
	p := traded(t, sky)
	raw := p.export(t, archive.Selection{})
	there, done, had := serials(sky), effects(sky), p.inventory(t)
	stop := p.run(t, sky)
	defer stop()
	writes := p.reimport(t, raw, 0, p.close)
	p.trades(t)
	p.close(t)
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
	p.put(t, strings.Replace(stalls, "versioning: false", "versioning: true", 1))
	p.awaitRevision(t)
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.trades(t)
	if diff := cmp.Diff(had, p.inventory(t)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if diff := cmp.Diff(done, effects(sky)); diff != "" {
		t.Errorf("creations, updates and deletions, -before +after:\n%s", diff)
	}
	p.sell(t, sky)
}

func TestADefinitionOfCompositesBringsWhatItNeeds(t *testing.T) {
	sky := open()
	p := traded(t, sky)
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
	p.sell(t, sky)
}
