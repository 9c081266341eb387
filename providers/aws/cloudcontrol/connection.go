package cloudcontrol

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// The resource can be used. What takes a request of its own is read only if there is a Secret for it.
func (c *client) addConnection(ctx context.Context, o *external.Observation, ref external.Ref, properties map[string]any) error {
	if o.Ready != external.Yes || c.object.GetDeletionTimestamp() != nil {
		return nil
	}
	target := c.target(string(ref), properties)
	if c.hooks.Connection != nil {
		o.Connection = merged(o.Connection, c.hooks.Connection(target))
	}
	secret, _, _ := unstructured.NestedString(c.object.Object, "spec", "writeConnectionSecretToRef", "name")
	if c.hooks.ReadConnection == nil || secret == "" {
		return nil
	}
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return err
	}
	details, err := c.hooks.ReadConnection(ctx, c.account.Config, target)
	c.account.Limiter.Report(err)
	if err != nil {
		return fmt.Errorf("read the connection details: %w", c.readError("read", err))
	}
	o.Connection = merged(o.Connection, details)
	return nil
}
