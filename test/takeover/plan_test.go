package takeover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/migration/takeover/migrate"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// TestATakeoverIsPlannedAndReverted compares the plan, which the controllers make in a dry run, with
// what they then do. Then it releases the objects to their engines, as these had left them.
func TestATakeoverIsPlannedAndReverted(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	recorded := live.Load(t, w, live.Crossplane, live.KRO)
	w.Apply(t, former)
	kubeconfig := testkit.Kubeconfig(t, config)
	by := pageRunner{kubeconfig, pageCommands(t)}
	there, back := []string{"Crossplane to Espalier", "kro to Espalier"}, []string{"Espalier to Crossplane", "Espalier to kro"}

	stored := versions(t, w, config)
	planned := planOf(t, config)
	checkUnwritten(t, "the plan", stored, versions(t, w, config))
	if s := takeover.New(planned.Objects, planned.Failed).Summary; s.Problems+s.Created+s.Deleted+s.Replaced != 0 || s.Changed < 100 {
		t.Errorf("the summary of the plan is %+v", s)
	}

	for _, text := range []string{"Crossplane may be running: Deployment crossplane-system/crossplane", "kro may be running: Deployment kro-system/kro", "--replace-crossplane-webhook"} {
		if !strings.Contains(strings.Join(planned.Notes, "\n"), text) {
			t.Errorf("the notes do not contain %q: %q", text, planned.Notes)
		}
	}
	for _, section := range there {
		by.runBefore(t, section)
	}
	stop := serve(t, config, server.Dialects)
	var differences map[object.Key]string
	t.Cleanup(func() {
		for _, key := range slices.SortedFunc(maps.Keys(differences), object.Key.Compare) {
			t.Logf("%s: -planned +is\n%s", key, differences[key])
		}
	})
	testkit.PollFor(t, 2*time.Minute, "each object is as planned", func() bool {
		differences = map[object.Key]string{}
		for _, o := range planned.Objects {
			if o.Before == nil || o.Before == o.After {
				continue
			}
			is := w.Get(t, o.After.GroupVersionKind(), o.After.GetNamespace(), o.After.GetName())
			if diff := cmp.Diff(content(t, o.After, nil), content(t, is, nil)); diff != "" {
				differences[object.KeyOf(o.After)] = diff
			}
		}
		return len(differences) == 0
	})
	for key, was := range recorded {
		if err := live.IsSameObject(was, w.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())); err != nil {
			t.Errorf("%s %v", key, err)
		}
	}

	observeDeployments(t, w, recorded)
	for _, section := range there {
		out := by.runRest(t, section)
		if more := differing.FindString(deletions.ReplaceAllString(out, "")); more != "" {
			t.Errorf("%s: after the takeover, a plan has more changes: %s\n%s", section, more, out)
		}
	}

	applyLease(t, w, time.Now())
	if code, out, errs := runCLI(t.Context(), "takeover", "--back-to", "kro", "--kubeconfig", kubeconfig); code != 3 || !strings.Contains(errs, "holds Lease default/espalier.espalier.dev") {
		t.Errorf("while the controllers run: exit code %d:\n%s\n%s", code, out, errs)
	}
	stop()
	applyLease(t, w, time.Now().Add(-time.Hour))

	stored = versions(t, w, config)
	promised := map[string]takeover.Plan{}
	for _, engine := range engines {
		promised[engine] = giveBack(t, kubeconfig, engine, "--plan")
	}
	checkUnwritten(t, "the plan for the way back", stored, versions(t, w, config))
	interruptTakeover(t, config)
	for _, engine := range engines {
		done := giveBack(t, kubeconfig, engine)
		diff := cmp.Diff(promised[engine].Objects, done.Objects) + cmp.Diff(promised[engine].Instances, done.Instances)
		if engine != interruptedEngine && diff != "" {
			t.Errorf("--back-to %s differs from its plan: -plan +done\n%s", engine, diff)
		}
		if again := giveBack(t, kubeconfig, engine); again.Summary.Changed != 0 {
			t.Errorf("--back-to %s has changes when it is repeated: %+v", engine, again.Summary)
		}
	}
	for _, section := range back {
		by.runRest(t, section)
	}
	for section, left := range by.commands {
		if len(left) > 0 {
			t.Errorf("%s, %s: no test runs %q", page, section, left)
		}
	}
	checkUnchanged(t, w, recorded)
	if checkNextApply(t, w, recorded) == 0 {
		t.Error("no Secret of stringData is recorded")
	}
}

// interruptedEngine is the engine whose release is interrupted.
const interruptedEngine = "kro"

// interruptTakeover releases some objects to an engine, and then fails.
func interruptTakeover(t *testing.T, config *rest.Config) {
	t.Helper()
	crash := testkit.NewCrash(7)
	err := migrate.Release(t.Context(), migrate.ReleaseOptions{
		Config: crash.Wrap(config), Engine: interruptedEngine, Lease: manager.LeaseName("espalier"), Now: time.Now, Each: func(preview.Object) {},
	})
	if err == nil {
		t.Error("the release is not interrupted")
	}
}

// observeDeployments does what the controller of Deployments does when only metadata has
// changed: no such controller runs here.
func observeDeployments(t *testing.T, w *testkit.Cluster, recorded map[string]*unstructured.Unstructured) {
	t.Helper()
	for _, was := range recorded {
		if was.GetKind() != "Deployment" {
			continue
		}
		is := w.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())
		if err := unstructured.SetNestedField(is.Object, is.GetGeneration(), "status", "observedGeneration"); err != nil {
			t.Fatal(err)
		}
		options := metav1.UpdateOptions{FieldManager: "Python-urllib"}
		if _, err := w.Resource(t, was.GroupVersionKind(), was.GetNamespace()).UpdateStatus(t.Context(), is, options); err != nil {
			t.Fatal(err)
		}
	}
}

// deletions is the part of a plan that reports the progress of a deletion.
var deletions = regexp.MustCompile(`(?m)^~ .*: change\n    status\.deletion: .*\n(  and .*\n)?`)

// differing is a line of a plan that reports a change of an object or of a field.
var differing = regexp.MustCompile(`(?m)^ *[-+~±o] .*$|^ {4,}[a-z]\S*[.[]\S*: .*$`)

var engines = []string{"crossplane", "kro"}

// planOf returns the plan of the controllers.
func planOf(t *testing.T, config *rest.Config) migrate.TakeoverFindings {
	t.Helper()
	r, err := migrate.PlanTakeover(t.Context(), server.ManagerOptions{
		Options: manager.Options{Config: config, Log: logr.Discard(), Version: "test"}, Settings: server.Settings{Workers: 4, Dialects: server.Dialects, Usages: true},
	}, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unsettled || r.Refused != nil {
		t.Fatalf("unsettled: %t, refused: %v", r.Unsettled, r.Refused)
	}
	return r
}

// versions are the resource versions of all objects of a cluster, except those that Kubernetes
// itself keeps writing.
func versions(t *testing.T, w *testkit.Cluster, config *rest.Config) map[object.Key]string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	kept := []string{"Lease", "Event", "ComponentStatus", "APIService"}
	out := map[object.Key]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(kept, r.Kind) {
				continue
			}
			all, err := w.Client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range all.Items {
				out[object.KeyOf(&all.Items[i])] = all.Items[i].GetResourceVersion()
			}
		}
	}
	return out
}

func checkUnwritten(t *testing.T, by string, before, after map[object.Key]string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("%s wrote: -before +after\n%s", by, diff)
	}
}

// moment is a time in an object.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// signature is a signature in an object: the plan, before the takeover, has a key of its own.
var signature = regexp.MustCompile(`"(hmac-sha256:)?v1:[0-9a-f]{8}:[^"]*"`)

// content is an object without values that change with each write, with the owners of its fields.
// It leaves out owners of status fields, which a change of the schema changes, and the prefix of a
// generated name: whether the first apply has it depends on the order in which caches sync.
func content(t *testing.T, o *unstructured.Unstructured, spared func(path string) bool) string {
	t.Helper()
	if o == nil {
		return "none"
	}
	shown := o.DeepCopy()
	for _, field := range []string{"resourceVersion", "generation", "managedFields", "generateName"} {
		unstructured.RemoveNestedField(shown.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(shown.Object, "metadata", "annotations", v1alpha1.AppliedAnnotation)
	raw, err := json.MarshalIndent(shown.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return signature.ReplaceAllString(moment.ReplaceAllString(string(raw), "TIME"), `"SIGNATURE"`) + "\n" + fieldOwners(t, o, spared)
}

// fieldOwners lists the fields of an object by their managers.
func fieldOwners(t *testing.T, o *unstructured.Unstructured, spared func(path string) bool) string {
	t.Helper()
	var lines []string
	for _, e := range o.GetManagedFields() {
		name := fmt.Sprint(e.Manager, " ", e.Operation, " ", e.Subresource)
		if e.Subresource != "" {
			lines = append(lines, name)
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			t.Fatal(err)
		}
		set.Leaves().Iterate(func(p fieldpath.Path) {
			if p.String() != ".metadata.generateName" && (spared == nil || !spared(p.String())) {
				lines = append(lines, name+p.String())
			}
		})
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// applyLease applies the Lease of controllers that renewed it last at a time.
func applyLease(t *testing.T, w *testkit.Cluster, at time.Time) {
	t.Helper()
	w.Apply(t, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: espalier.espalier.dev, namespace: default}\n"+
		"spec: {holderIdentity: somebody, leaseDurationSeconds: 600, renewTime: \""+at.UTC().Format("2006-01-02T15:04:05.000000Z")+"\"}\n")
}

// giveBack returns the plan of a release to an engine.
func giveBack(t *testing.T, kubeconfig, engine string, more ...string) takeover.Plan {
	t.Helper()
	code, out, errs := runCLI(t.Context(), append([]string{"takeover", "--back-to", engine, "-o", "json", "--kubeconfig", kubeconfig}, more...)...)
	var plan takeover.Plan
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil {
		t.Fatalf("--back-to %s %v: exit code %d: %v\n%s", engine, more, code, err, errs)
	}
	return plan
}

// fieldsOf are the changes from one state of an object to another.
func fieldsOf(was, is *unstructured.Unstructured) []preview.FieldChange {
	p := preview.New(preview.Input{Records: true, Objects: []preview.Object{{Before: was, After: is}}})
	for _, i := range p.Instances {
		p.Objects = append(p.Objects, i.ObjectChange)
	}
	return p.Objects[0].Fields
}

// remaining is a row of the page's table of differences after a release.
var remaining = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// checkUnchanged checks that objects are as their engines left them, except as the page lists.
func checkUnchanged(t *testing.T, w *testkit.Cluster, recorded map[string]*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## What is different after the way back\n")
	told := map[string]bool{} // by path
	for _, row := range remaining.FindAllStringSubmatch(table, -1) {
		told[row[1]] = true
	}
	met := map[string]bool{}
	for key, was := range recorded {
		is := w.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())
		if err := live.IsSameObject(was, is); err != nil {
			t.Errorf("%s %v", key, err)
			continue
		}
		for _, f := range fieldsOf(was, is) {
			if met[f.Path] = true; !told[f.Path] {
				t.Errorf("%s: %s, and %s does not list it", key, f, page)
			}
		}
		spared := func(path string) bool { return told["owners of "+path] }
		if diff := cmp.Diff(fieldOwners(t, was, spared), fieldOwners(t, is, spared)); diff != "" {
			t.Errorf("%s: owners of fields: -recorded +now\n%s", key, diff)
		}
	}
	for row := range told {
		if !met[row] && !strings.HasPrefix(row, "owners of ") && row != "metadata.generateName" {
			t.Errorf("%s lists %s, which does not differ", page, row)
		}
	}
}
