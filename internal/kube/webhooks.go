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

// callFailed is how the API server's webhook client begins the text of a call that failed. It
// is a text alone: the status has no field for the webhook.
var callFailed = regexp.MustCompile(`failed calling webhook "([^"]{1,253})"`)

// unansweredWebhook is the name of the admission webhook whose call failed, which the
// configuration gives it; empty if the error is another.
func unansweredWebhook(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if found := callFailed.FindStringSubmatch(cause.Message); found != nil {
			return found[1]
		}
	}
	return ""
}

// configuredBy names, in words that go after an error, the configurations that have a
// webhook. They are read, since the API server doesn't say which it goes by. Where that isn't
// allowed nothing is said.
func (c *Client) configuredBy(ctx context.Context, webhook string) string {
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
	return " (of " + strings.Join(found, ", ") + ")"
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
