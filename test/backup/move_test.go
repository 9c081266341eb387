package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// runCLI runs the program against a plane.
func (p plane) runCLI(t *testing.T, verb string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), append([]string{verb, "--kubeconfig", p.kubeconfig(t)}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// managers returns the field managers of an object, sorted.
func managers(o *unstructured.Unstructured) []string {
	var out []string
	for _, e := range o.GetManagedFields() {
		out = append(out, e.Manager+"/"+e.Subresource)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lateRevisions delays what the watch of GraphRevisions delivers, from the time that it is on until a revision is
// read or created by name.
type lateRevisions struct {
	next http.RoundTripper
	on   atomic.Bool
	seen chan struct{}
	once sync.Once
}

func (l *lateRevisions) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	of, isRevision := strings.CutPrefix(r.URL.Path, "/apis/internal.kro.run/v1alpha1/graphrevisions")
	switch {
	case !isRevision || err != nil:
	case r.URL.Query().Has("watch"):
		answer.Body = lateBody{answer.Body, l}
	case l.on.Load() && (of != "" || r.Method == http.MethodPost):
		l.end()
	}
	return answer, err
}

func (l *lateRevisions) end() { l.once.Do(func() { close(l.seen) }) }

type lateBody struct {
	io.ReadCloser
	late *lateRevisions
}

func (b lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.late.on.Load() {
		<-b.late.seen
	}
	return n, err
}

// TestARolloutContinuesInAnotherCluster exports a definition while half of its instances are updated. The controllers
// of the other cluster observe the definition before its revisions.
func TestARolloutContinuesInAnotherCluster(t *testing.T) {
	const edition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-box}
spec:
  rollout: {waves: [{percent: 50, pause: 1h}]}
  schema: {apiVersion: v1alpha1, kind: Box, group: $GROUP, status: {edition: "${content.data.edition}"}}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {edition: WORD}}
`
	config := testkit.ExclusiveServer(t)
	from := newPlane(t, config).withNames(testkit.Namespace(t, config), testkit.Group(t))
	definition := from.expand("$ID-box")
	stop := from.run(t, nil)
	from.apply(t, strings.Replace(edition, "WORD", "one", 1))
	from.AwaitReady(t, suite.RGD, "", definition)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		from.apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: "+name+", namespace: $NS}\n")
		from.AwaitReady(t, from.kind("Box"), from.ns, name)
	}
	from.apply(t, strings.Replace(edition, "WORD", "two", 1))
	halfway := func(o *unstructured.Unstructured) error {
		rollout, _, _ := unstructured.NestedMap(o.Object, "status", "rollout")
		if rollout["phase"] != "Pausing" || rollout["ready"] != int64(2) {
			return errors.New("has not updated two instances")
		}
		return nil
	}
	from.Await(t, suite.RGD, "", definition, halfway)
	stop()
	raw := from.export(t, archive.Selection{Definitions: []string{definition}})

	to := newPlane(t, testkit.AnotherServer(t)).withNames(from.ns, from.group)
	late, behind := &lateRevisions{seen: make(chan struct{})}, to
	behind.config = rest.CopyConfig(to.config)
	behind.config.Wrap(func(next http.RoundTripper) http.RoundTripper { late.next = next; return late })
	stop = behind.run(t, nil)
	defer func() { stop() }()
	to.apply(t, strings.NewReplacer("WORD", "other", "$ID-box", "$ID-other", "Box", "Other").Replace(edition))
	to.AwaitReady(t, suite.RGD, "", from.expand("$ID-other")) // all revisions have been read
	late.on.Store(true)
	defer late.end()
	if err := to.importer(t, to.config, raw, "x").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := to.Await(t, suite.RGD, "", definition, halfway)
	if issued, _, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision"); issued != 2 {
		t.Errorf("%d revisions were issued", issued)
	}
	for _, revision := range []string{"-r00001", "-r00002"} {
		to.AwaitReady(t, graphRevision, "", definition+revision)
	}
	for _, name := range names {
		was, _, _ := unstructured.NestedString(from.Get(t, from.kind("Box"), from.ns, name).Object, "status", "edition")
		to.Await(t, to.kind("Box"), to.ns, name, func(o *unstructured.Unstructured) error {
			if is, _, _ := unstructured.NestedString(o.Object, "status", "edition"); is != was {
				return fmt.Errorf("is edition %q, and was %q", is, was)
			}
			return testkit.IsReady(o)
		})
	}
	for _, name := range names { // other tests import into this cluster
		from.erase(t, from.Get(t, from.kind("Box"), from.ns, name))
	}
	from.erase(t, from.Get(t, suite.RGD, "", definition))
	for _, suffix := range []string{"-r00001", "-r00002"} {
		from.erase(t, from.Get(t, graphRevision, "", definition+suffix))
	}
}

// TestAControlPlaneMovesToAnotherCluster exports instances and imports them on another API server, where
// nothing is created or changed in the cloud.
func TestAControlPlaneMovesToAnotherCluster(t *testing.T) {
	fakeCloud := newCloud()
	from := newStockedPlane(t, fakeCloud)
	there, made, changed := serials(fakeCloud), countEffects(fakeCloud, cloud.VerbCreate), countEffects(fakeCloud, cloud.VerbUpdate)
	file := filepath.Join(t.TempDir(), "export.yaml")
	if code, _, errs := from.runCLI(t, "export", "--output", file, "-n", from.ns); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the export is %v, %v", info.Mode(), err)
	}

	to := newPlane(t, testkit.AnotherServer(t)).withNames(from.ns, from.group)
	t.Log("without the program's kinds nothing is written")
	if code, _, errs := to.runCLI(t, "import", file); code != 3 || !strings.Contains(errs, `no matches for kind "Hold" in version "espalier.dev/v1alpha1"`) || !strings.Contains(errs, `no matches for kind "Bucket" in version "sandbox.espalier.dev/v1alpha1"`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	stop := to.run(t, fakeCloud)
	defer func() { stop() }()
	if code, out, errs := to.runCLI(t, "import", "--dry-run", file); code != 0 || !strings.Contains(out, "create Store "+to.ns) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := to.runCLI(t, "import", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	to.awaitStock(t)
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	if c, u := countEffects(fakeCloud, cloud.VerbCreate), countEffects(fakeCloud, cloud.VerbUpdate); c != made || u != changed {
		t.Errorf("the cloud got %d more creations and %d more updates", c-made, u-changed)
	}
	to.checkBindings(t, len(from.bindings(t)))
	if got := to.Get(t, to.kind("Store"), to.ns, to.storeName()).GetLabels()["team"]; got != "a" {
		t.Errorf("the store's label is %q", got)
	}
	for _, o := range []*unstructured.Unstructured{to.Get(t, bucket, to.ns, to.storeName()), to.Get(t, to.kind("Store"), to.ns, to.storeName())} {
		if got, want := managers(o), managers(from.Get(t, o.GroupVersionKind(), from.ns, o.GetName())); !cmp.Equal(got, want) {
			t.Errorf("the fields of %s are owned by %v, and were by %v", o.GetKind(), got, want)
		}
	}
	t.Log("imported again, it overwrites nothing")
	if code, _, errs := to.runCLI(t, "import", file); code != 3 || !strings.Contains(errs, "exists; an import overwrites nothing") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	t.Log("a restart changes nothing")
	stop()
	stop = to.run(t, fakeCloud)
	to.awaitStock(t)

	t.Log("a deletion in the new cluster deletes everything in the cloud")
	to.Delete(t, to.kind("Store"), to.ns, to.storeName())
	to.Delete(t, bucket, to.ns, to.bucketName())
	to.AwaitGone(t, to.kind("Store"), to.ns, to.storeName())
	to.AwaitGone(t, bucket, to.ns, to.bucketName())
	if left := serials(fakeCloud); len(left) > 0 {
		t.Errorf("the cloud still has %v", left)
	}
	to.awaitNoBindings(t)

	from.eraseStock(t) // the next test has another cloud
	for _, name := range []string{"$ID-a-store", "$ID-shelf"} {
		from.erase(t, from.Get(t, suite.RGD, "", from.expand(name)))
	}
}
