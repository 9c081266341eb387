package takeover

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// The API server still calls the webhook of a Crossplane that is stopped before it deletes an object
// with the label of a Usage.
func TestTheWebhookOfCrossplaneIsReportedAndReplacedOnRequest(t *testing.T) {
	s := suite.New(t)
	s.Await(t, app, "team-a", "shop", settled)
	remove := func() error {
		return s.Resource(t, app, "team-a").Delete(t.Context(), "shop", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if err := remove(); err == nil || !strings.Contains(err.Error(), "nousages.protection.crossplane.io") {
		t.Fatalf("the webhook does not refuse the deletion: %v", err)
	}
	code, out, errs := runCLI(t.Context(), "run", "--check", "--kubeconfig", testkit.Kubeconfig(t, s.Config))
	if code != 0 || !strings.Contains(out, "note: ValidatingWebhookConfiguration crossplane-no-usages was installed by Crossplane") || !strings.Contains(out, "--replace-crossplane-webhook") {
		t.Errorf("--check ended with %d:\n%s\n%s", code, out, errs)
	}
	k, err := cluster.New(cluster.Options{Config: s.Config, Workers: 1, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.ReplaceForeign(t.Context(), k.Client, false, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err == nil {
		t.Fatal("the webhook was replaced without --replace-crossplane-webhook")
	}
	if err := webhook.ReplaceForeign(t.Context(), k.Client, true, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	testkit.Poll(t, "the API server asks nobody any more", func() bool { return remove() == nil })
}
