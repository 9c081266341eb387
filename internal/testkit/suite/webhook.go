package suite

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// RefusingWebhook serves an admission webhook that denies every request with the given
// status, after calling do unless that is nil. It returns the webhook's clientConfig.
func RefusingWebhook(t *testing.T, status metav1.Status, do func(*admissionv1.AdmissionRequest)) map[string]any {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if do != nil {
			do(review.Request)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &status}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return map[string]any{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(authority)}
}

var webhookConfiguration = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}

// ConfigureWebhook makes the API server call a webhook for requests in the test's namespace
// that match a rule. It returns once refused reports a denied request, since the API server
// does not publish when a configuration takes effect. Clear deletes the configuration.
func (s Suite) ConfigureWebhook(t *testing.T, webhook map[string]any, rule string, refused func() bool) (clear func()) {
	t.Helper()
	o := testkit.Parse(t, s.Expand(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $ID-guard}
webhooks:
  - name: guard.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    timeoutSeconds: 5
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}
    rules: [`+rule+`]
`))[0]
	o.Object["webhooks"].([]any)[0].(map[string]any)["clientConfig"] = webhook
	if _, err := s.TryApply(t, o); err != nil {
		t.Fatal(err)
	}
	testkit.Poll(t, "the webhook is called", refused)
	return func() { s.Delete(t, webhookConfiguration, "", o.GetName()) }
}

// AdmissionPolicy is a ValidatingAdmissionPolicy $ID-name with the given lines as its spec, and a
// binding that denies what it does not allow.
func AdmissionPolicy(name, spec string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $ID-` + name + `}
spec:` + spec + `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $ID-` + name + `}
spec: {policyName: $ID-` + name + `, validationActions: [Deny]}
`
}

// DeleteAdmissionPolicy deletes an AdmissionPolicy.
func (s Suite) DeleteAdmissionPolicy(t *testing.T, name string) {
	t.Helper()
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		s.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", s.Name(name))
	}
}
