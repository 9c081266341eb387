package security

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTextsOfOthersControlNothing has an admission webhook refuse a child with a text that clears
// the screen of a terminal, looks like a line of a table, and is long.
func TestTextsOfOthersControlNothing(t *testing.T) {
	s := suite.New(t)
	text := "no\x1b[2J\x1b]0;root\aREADY\r\nx  True \u202e\u009b31m" + strings.Repeat(" and so on", 100_000) + " at the end"
	webhook := suite.RefusingWebhook(t, metav1.Status{Message: text, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, nil)
	defer s.ConfigureWebhook(t, webhook, `{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE]}`, func() bool {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}}}
		_, err := s.Resource(t, suite.ConfigMap, s.NS).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})()
	s.Account(t, "builder")
	s.Apply(t, strings.Replace(suite.Box, "spec:", "spec:\n  serviceAccount: {namespace: $NS, name: builder}", 1))
	s.Apply(t, suite.BoxInstance)
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasCondition("Ready", "False", "Forbidden", `no\x1b[2J`))
	s.AwaitEvent(t, "x", "Forbidden") // of the webhook, unless the account could not be impersonated for a moment before

	texts := map[string]any{"the instance": s.Get(t, s.Kind("Box"), s.NS, "x").Object["status"]}
	for _, event := range s.List(t, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, s.NS, "") {
		texts["event "+event.GetName()] = event.Object["note"]
	}
	for what, value := range texts {
		forEachText(value, func(text string) {
			if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Errorf("%s has control characters: %q", what, text)
			}
		})
		if raw, err := json.Marshal(value); err != nil || len(raw) > 16<<10 {
			t.Errorf("%s has %d bytes (%v)", what, len(raw), err)
		}
	}
	if got := testkit.ConditionMessage(s.Get(t, s.Kind("Box"), s.NS, "x"), "Ready"); !strings.Contains(got, "at the end") {
		t.Errorf("the end of the reason is missing: %s", got)
	}
}

// forEachText calls do with each text in a value of JSON.
func forEachText(value any, do func(string)) {
	switch v := value.(type) {
	case string:
		do(v)
	case []any:
		for _, item := range v {
			forEachText(item, do)
		}
	case map[string]any:
		for key, item := range v {
			do(key)
			forEachText(item, do)
		}
	}
}
