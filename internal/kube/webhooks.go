package kube

import (
	"context"
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// failedCallPattern matches the text of the API server's webhook client about a failed
// call. Only the text names the webhook; the status has no field for it.
var failedCallPattern = regexp.MustCompile(`failed calling webhook "([^"]{1,253})"`)

// failedWebhook returns the name, as configured, of the admission webhook that was called in vain; empty for other
// errors.
func failedWebhook(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if found := failedCallPattern.FindStringSubmatch(cause.Message); found != nil {
			return found[1]
		}
	}
	return ""
}

// webhookConfigurations names the configurations that contain a webhook, as a suffix for an error message. It lists
// them, because the API server does not say which one it uses. If the list is forbidden, the suffix is empty.
func (c *Client) webhookConfigurations(ctx context.Context, webhook string) string {
	var found []string
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: strings.ToLower(kind) + "s"}
		list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			if hasWebhook(&list.Items[i], webhook) {
				found = append(found, kind+" "+list.Items[i].GetName())
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (in " + strings.Join(found, ", ") + ")"
}

func hasWebhook(configuration *unstructured.Unstructured, name string) bool {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok && w["name"] == name {
			return true
		}
	}
	return false
}
