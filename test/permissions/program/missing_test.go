package program

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// readiness is what the program answers to a probe that wants to know all.
func (w *world) readiness(t *testing.T) (code int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.options.HealthAddress+"/readyz?verbose", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error() // it only begins to listen
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// awaitReadiness waits until the program is ready, and its readiness has all of the texts, or
// none.
func (w *world) awaitReadiness(t *testing.T, said bool, texts ...string) {
	t.Helper()
	var code int
	var got string
	defer func() {
		if t.Failed() {
			t.Logf("it answers %d: %s", code, got)
		}
	}()
	testkit.Poll(t, fmt.Sprintf("%q is said by a probe: %t", texts, said), func() bool {
		code, got = w.readiness(t)
		for _, text := range texts {
			if strings.Contains(got, text) != said {
				return false
			}
		}
		return code == http.StatusOK
	})
}

// missing counts the missing permissions of a definition in the metrics.
func missing(t *testing.T, definition string) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "espalier_missing_permissions" {
			continue
		}
		for _, m := range family.GetMetric() {
			if label(m, "definition") == definition {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

func rbacKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind}
}

// TestMissingPermissionsAreNamed starts the program without permissions, grants them, and revokes
// them again while nothing else changes.
func TestMissingPermissionsAreNamed(t *testing.T) {
	w := begin(t)
	ready := w.start(t)
	who := "system:serviceaccount:" + w.NS + ":" + account

	t.Log("at the start")
	w.awaitReadiness(t, true, who+" lacks: ", "create, delete, get, list, patch and watch customresourcedefinitions.apiextensions.k8s.io", "get and update leases.coordination.k8s.io named espalier.espalier.dev in namespace "+w.NS)
	testkit.Poll(t, "the log says what is missing", func() bool {
		log := w.log.String()
		return strings.Contains(log, "the controllers lack permissions") && strings.Contains(log, "customresourcedefinitions.apiextensions.k8s.io") &&
			strings.Contains(log, "espalier rbac --controllers --serviceaccount "+w.NS+":"+account)
	})
	w.grant(t)
	select {
	case <-ready:
	case <-time.After(testkit.Timeout):
		t.Fatal("not ready")
	}
	w.awaitReadiness(t, false, "lacks")

	t.Log("revoked while all is at rest, of the controllers")
	w.Apply(t, site)
	w.Await(t, suite.RGD, "", w.Name("site"), lacking("configmaps"))
	printed := w.printed(t, w.Name("site"))
	w.Apply(t, printed)
	w.Apply(t, fmt.Sprintf(instance, "Site", "one"))
	w.Await(t, w.Kind("Site"), w.NS, "x", says("one"))
	definition, site := w.Await(t, suite.RGD, "", w.Name("site"), granted), w.Get(t, w.Kind("Site"), w.NS, "x")
	w.Delete(t, rbacKind("ClusterRoleBinding"), "", "espalier:"+w.Name("site"))
	w.Await(t, suite.RGD, "", w.Name("site"), lacking(who, "create, delete, get, list, patch and watch configmaps", "update sites."+w.Group+"/status"))
	w.AwaitEventOn(t, definition, "PermissionsMissing", "configmaps", "espalier rbac "+w.Name("site"))
	w.awaitReadiness(t, true, who+" lacks, for definition "+w.Name("site")+": create, delete, get, list, patch and watch configmaps")
	w.AwaitEventOn(t, site, "FailedStatusUpdate", "Forbidden to update sites."+w.Group+"/status")
	testkit.Poll(t, "the metrics count what is missing", func() bool { return missing(t, w.Name("site")) > 6 })
	w.Apply(t, printed)
	w.Await(t, suite.RGD, "", w.Name("site"), granted)
	w.AwaitEventOn(t, definition, "PermissionsGranted")
	w.awaitReadiness(t, false, "lacks")
	testkit.Poll(t, "the metrics count nothing", func() bool { return missing(t, w.Name("site")) == 0 })
	w.Apply(t, fmt.Sprintf(instance, "Site", "two"))
	w.Await(t, w.Kind("Site"), w.NS, "x", says("two"))

	t.Log("revoked in part, of an account: what cannot be seen is not said to be ready")
	w.Apply(t, blog)
	w.Await(t, suite.RGD, "", w.Name("blog"), lacking("impersonate"))
	printed = w.printed(t, w.Name("blog"))
	w.Apply(t, printed)
	w.Apply(t, fmt.Sprintf(instance, "Blog", "three"))
	w.Await(t, w.Kind("Blog"), w.NS, "x", says("three"))
	definition = w.Await(t, suite.RGD, "", w.Name("blog"), granted)
	w.Apply(t, strings.Replace(printed, "  - configmaps\n", "  - pods\n", 1))
	w.Await(t, suite.RGD, "", w.Name("blog"), lacking("system:serviceaccount:"+w.NS+":builder lacks: create, delete, get, list, patch and watch configmaps"))
	w.AwaitEventOn(t, definition, "PermissionsMissing", "configmaps")
	w.Await(t, w.Kind("Blog"), w.NS, "x", func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "Ready") != "False" || testkit.ConditionReason(o, "Ready") != "Forbidden" || !strings.Contains(testkit.ConditionMessage(o, "Ready"), "configmaps") {
			return errors.New("it says " + testkit.ConditionMessage(o, "Ready"))
		}
		return nil
	})
	w.Apply(t, printed)
	w.Await(t, w.Kind("Blog"), w.NS, "x", says("three"))

	t.Log("the right to act as the account")
	w.Delete(t, rbacKind("RoleBinding"), w.NS, "espalier-controllers:"+w.Name("blog"))
	w.Await(t, suite.RGD, "", w.Name("blog"), lacking("The controllers ("+who+") lack: impersonate, list and watch serviceaccounts named builder in namespace "+w.NS))
	w.Apply(t, printed)
	w.Await(t, suite.RGD, "", w.Name("blog"), granted)
	w.end(t)
}

// revoke takes rights to a resource out of the controllers' own role.
func (w *world) revoke(t *testing.T, resource string, verbs ...string) {
	t.Helper()
	role := w.Get(t, rbacKind("ClusterRole"), "", rbac.ControllersRole)
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	var kept []any
	for _, rule := range rules {
		rule := rule.(map[string]any)
		resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
		others := slices.DeleteFunc(slices.Clone(resources), func(r string) bool { return r == resource })
		if len(others) < len(resources) {
			one := maps.Clone(rule)
			allowed, _, _ := unstructured.NestedStringSlice(rule, "verbs")
			one["resources"] = []any{resource}
			one["verbs"] = texts(slices.DeleteFunc(allowed, func(v string) bool { return slices.Contains(verbs, v) }))
			rule["resources"] = texts(others)
			kept = append(kept, one)
		}
		kept = append(kept, rule)
	}
	role.Object["rules"] = slices.DeleteFunc(kept, func(rule any) bool {
		fields := rule.(map[string]any)
		return len(fields["verbs"].([]any)) == 0 || len(fields["resources"].([]any)) == 0
	})
	if _, err := w.Resource(t, rbacKind("ClusterRole"), "").Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func texts(all []string) []any {
	out := make([]any, len(all))
	for i, text := range all {
		out[i] = text
	}
	return out
}

// TestAnUnwritableDefinitionIsReported lacks the rights to write a definition's status,
// or to put a finalizer on it, so that its status cannot say so.
func TestAnUnwritableDefinitionIsReported(t *testing.T) {
	w := startGranted(t)
	for name, tc := range map[string]struct{ resource, verb, reason, says string }{
		"status":    {"resourcegraphdefinitions/status", "update", "FailedStatusUpdate", "Forbidden to update resourcegraphdefinitions.kro.run/status"},
		"finalizer": {"resourcegraphdefinitions", "patch", "FailedFinalizer", "Forbidden to patch resourcegraphdefinitions.kro.run"},
	} {
		t.Log("its " + name)
		w.revoke(t, tc.resource, tc.verb)
		w.awaitReadiness(t, true, ":"+account+" lacks: "+tc.verb+" "+strings.Replace(tc.resource, "definitions", "definitions.kro.run", 1))
		testkit.Poll(t, "the metrics count it", func() bool { return missing(t, "") == 1 })
		if !strings.Contains(w.log.String(), "missing=\""+tc.verb+" "+strings.Replace(tc.resource, "definitions", "definitions.kro.run", 1)) {
			t.Errorf("the log does not say what is missing:\n%s", w.log)
		}
		w.Apply(t, strings.NewReplacer("kind: Site", "kind: S"+name, "$ID-site", "$ID-"+name).Replace(site))
		o := w.Get(t, suite.RGD, "", w.Name(name))
		w.AwaitEventOn(t, o, tc.reason, tc.says, "espalier rbac --controllers")
		w.grant(t)
		w.Await(t, suite.RGD, "", w.Name(name), lacking("list, patch and watch s"+name))
		w.awaitReadiness(t, false, tc.resource)
		w.Apply(t, w.printed(t, w.Name(name)))
		w.AwaitReady(t, suite.RGD, "", w.Name(name))
		w.Delete(t, suite.RGD, "", w.Name(name))
		w.AwaitGone(t, suite.RGD, "", w.Name(name))
	}
}
