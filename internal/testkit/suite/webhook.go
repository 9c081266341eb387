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

// Refusing is an admission webhook that refuses every request with the given status, after
// doing something, if that isn't nil. It returns how the API server reaches it.
func Refusing(t *testing.T, status metav1.Status, do func(*admissionv1.AdmissionRequest)) map[string]any {
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

// AskInNamespace has the API server ask a webhook about requests in the test's namespace
// that match a rule, from when refused reports that it does. Clear ends that.
func (s Suite) AskInNamespace(t *testing.T, webhook map[string]any, rule string, refused func() bool) (clear func()) {
	t.Helper()
	o := testkit.Parse(t, s.Text(`
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
	// When it begins to ask, the API server tells nobody.
	testkit.Poll(t, "the webhook is asked", refused)
	return func() { s.Delete(t, webhookConfiguration, "", o.GetName()) }
}
