package webhook

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube"
)

// ForeignName is the name of Crossplane's webhook configuration for usages. It stays when
// Crossplane is stopped; then no object with the in-use label can be deleted.
const ForeignName = "crossplane-no-usages"

// ForeignNote explains Crossplane's webhook configuration and how to replace it.
const ForeignNote = "ValidatingWebhookConfiguration " + ForeignName + " was installed by Crossplane: the API server calls Crossplane's webhook before it deletes " +
	"an object with the in-use label, and denies the deletion if the webhook does not respond. If Crossplane no longer runs, " +
	"set --replace-crossplane-webhook, which deletes it, and --webhook-bind-address: without a webhook, users can delete objects in use"

// FindForeign returns Crossplane's webhook configuration; nil if there is none.
func FindForeign(ctx context.Context, c *kube.Client) (*unstructured.Unstructured, error) {
	found, err := c.Get(ctx, configurationKind, "", ForeignName)
	switch {
	case kube.IsObjectNotFound(err, ForeignName):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", ForeignName, err)
	case !isUsagesWebhook(found):
		return nil, nil // an unrelated configuration with the same name
	}
	return found, nil
}

func isUsagesWebhook(o *unstructured.Unstructured) bool {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, hook := range hooks {
		if hook, ok := hook.(map[string]any); ok && hook["name"] == webhookName {
			return true
		}
	}
	return false
}

// ReplaceForeign deletes Crossplane's webhook configuration if that is wanted, and otherwise
// logs ForeignNote if there is one.
func ReplaceForeign(ctx context.Context, c *kube.Client, wanted bool, log logr.Logger) error {
	found, err := FindForeign(ctx, c)
	if err != nil || found == nil {
		return err
	}
	if !wanted {
		log.Info(ForeignNote)
		return nil
	}
	if err := c.Delete(ctx, found); err != nil {
		return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", ForeignName, err)
	}
	log.Info("deleted Crossplane's ValidatingWebhookConfiguration, because --replace-crossplane-webhook is set", "name", ForeignName)
	return nil
}
