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
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/takeover"
	"github.com/espalier-dev/espalier/internal/takeover/migrate"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// The plan is made by the controllers themselves, so that it says what they then do. What
// they have done is taken back afterwards, and each engine finds what it left.
func TestTakingOverIsPlannedAndCanBeTakenBack(t *testing.T) {
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
	if s := takeover.New(planned.Objects, planned.Failed).Summary; s.Refused+s.Created+s.Deleted+s.Recreated != 0 || s.Changed < 100 {
		t.Errorf("the plan comes to %+v", s)
	}

	for _, text := range []string{"Crossplane may be running: Deployment crossplane-system/crossplane", "kro may be running: Deployment kro-system/kro", "--replace-crossplane-webhook"} {
		if !strings.Contains(strings.Join(planned.Notes, "\n"), text) {
			t.Errorf("the plan does not say %q, but %q", text, planned.Notes)
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
		if more := differing.FindString(strings.ReplaceAll(out, "status:      ~ deletion\n", "")); more != "" {
			t.Errorf("%s: once everything is taken over, there is more to change: %s\n%s", section, more, out)
		}
	}

	applyLease(t, w, time.Now())
	if code, out, errs := runCLI(t.Context(), "takeover", "--back-to", "kro", "--kubeconfig", kubeconfig); code != 3 || !strings.Contains(errs, "holds Lease default/espalier.espalier.dev") {
		t.Errorf("while the controllers run, it ended with %d:\n%s\n%s", code, out, errs)
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
		diff := cmp.Diff(promised[engine].Groups, giveBack(t, kubeconfig, engine).Groups)
		if engine != interruptedEngine && diff != "" {
			t.Errorf("--back-to %s does something else than its plan says: -plan +done\n%s", engine, diff)
		}
		if again := giveBack(t, kubeconfig, engine); again.Summary.Changed != 0 {
			t.Errorf("--back-to %s changes more when it is run again: %+v", engine, again.Summary)
		}
	}
	for _, section := range back {
		by.runRest(t, section)
	}
	for section, left := range by.commands {
		if len(left) > 0 {
			t.Errorf("%s, %s: nothing runs %q", page, section, left)
		}
	}
	checkUnchanged(t, w, recorded)
}

// interruptedEngine is the engine that is given its objects in two goes.
const interruptedEngine = "kro"

// interruptTakeover gives an engine a part of its objects, and then fails.
func interruptTakeover(t *testing.T, config *rest.Config) {
	t.Helper()
	crash := testkit.NewCrash(7)
	err := migrate.Release(t.Context(), migrate.ReleaseOptions{
		Config: crash.Wrap(config), Engine: interruptedEngine, Lease: manager.LeaseName("espalier"), Now: time.Now, Each: func(takeover.Observed) {},
	})
	if err == nil {
		t.Error("it is not interrupted")
	}
}

// observeDeployments does what the controller of Deployments does when only metadata has
// changed, which nobody else does here.
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

// differing is a line of a plan that reports a difference.
var differing = regexp.MustCompile(`(?m)^    (managers|owners|finalizers|labels|annotations|fields|conditions|status|would be)\b.*$`)

var engines = []string{"crossplane", "kro"}

// planOf returns the plan of the controllers.
func planOf(t *testing.T, config *rest.Config) server.TakeoverFindings {
	t.Helper()
	r, err := server.PlanTakeover(t.Context(), server.ManagerOptions{
		Options: manager.Options{Config: config, Log: logr.Discard(), Version: "test"}, Workers: 4, Dialects: server.Dialects, Usages: true,
	}, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unsettled || r.Refused != nil {
		t.Fatalf("unsettled: %t, refused: %v", r.Unsettled, r.Refused)
	}
	return r
}

// versions are the resource versions of everything that a cluster stores, but for what
// Kubernetes itself keeps writing.
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
		t.Errorf("%s has written: -before +after\n%s", by, diff)
	}
}

// moment is a time in an object.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// content is an object without what differs each time it is written, with who owns which of
// its fields. Which fields of a status is left out: of a kind whose schema changes, only the
// server can tell. So is the prefix of a generated name: whether it is still said when an
// object is applied for the first time depends on which cache is the first to be complete.
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
	return moment.ReplaceAllString(string(raw), "TIME") + "\n" + fieldOwners(t, o, spared)
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

// applyLease is what controllers leave that were last heard of at a time.
func applyLease(t *testing.T, w *testkit.Cluster, at time.Time) {
	t.Helper()
	w.Apply(t, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: espalier.espalier.dev, namespace: default}\n"+
		"spec: {holderIdentity: somebody, leaseDurationSeconds: 600, renewTime: \""+at.UTC().Format("2006-01-02T15:04:05.000000Z")+"\"}\n")
}

// giveBack returns the plan of giving objects back to an engine.
func giveBack(t *testing.T, kubeconfig, engine string, more ...string) takeover.Plan {
	t.Helper()
	code, out, errs := runCLI(t.Context(), append([]string{"takeover", "--back-to", engine, "-o", "json", "--kubeconfig", kubeconfig}, more...)...)
	var plan takeover.Plan
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil {
		t.Fatalf("--back-to %s %v ended with %d: %v\n%s", engine, more, code, err, errs)
	}
	return plan
}

// remaining is a row of the page's table of what differs after the way back.
var remaining = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// checkUnchanged checks that objects are as their engines left them, except as the page lists.
func checkUnchanged(t *testing.T, w *testkit.Cluster, recorded map[string]*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, row := range remaining.FindAllStringSubmatch(string(text), -1) {
		told[row[1]] = true
	}
	met := map[string]bool{}
	for key, was := range recorded {
		is := w.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())
		if err := live.IsSameObject(was, is); err != nil {
			t.Errorf("%s %v", key, err)
			continue
		}
		for _, d := range takeover.Diff(was, is) {
			for _, item := range slices.Concat(d.Added, d.Removed, d.Changed) {
				name, _, _ := strings.Cut(item, ":")
				met[string(d.Aspect)+" "+name] = true
				if !told[string(d.Aspect)+" "+name] {
					t.Errorf("%s: %s %s is different, and %s does not tell", key, d.Aspect, item, page)
				}
			}
			for _, r := range d.Renamed {
				t.Errorf("%s: manager %s has become %s", key, r.From, r.To)
			}
		}
		spared := func(path string) bool { return told["owners of "+path] }
		if diff := cmp.Diff(fieldOwners(t, was, spared), fieldOwners(t, is, spared)); diff != "" {
			t.Errorf("%s: others own its fields: -recorded +is\n%s", key, diff)
		}
	}
	for row := range told {
		if !met[row] && !strings.HasPrefix(row, "owners of ") && row != "fields metadata.generateName" {
			t.Errorf("%s says that %s differs; it does not", page, row)
		}
	}
}
