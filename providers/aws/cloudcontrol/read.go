package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/response"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// It is read together with other resources if that is possible.
func (c *client) read(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	if c.hooks.ReadMany == nil || c.account.Reads == nil {
		return c.readOne(ctx, identifier)
	}
	if unread, isKnown := c.unread(identifier); isKnown {
		properties, found, err = c.readTogether(ctx, identifier, unread)
		if err != nil {
			return nil, false, err
		}
		if found && !c.isUnreadDifferent(properties) {
			return properties, true, nil
		}
		// Only the read of one resource is certain about its absence, and about what other reads leave out.
	}
	return c.readAlone(ctx, identifier)
}

// What an older result shows is confirmed before anything is changed or reported because of it.
func (c *client) readTogether(ctx context.Context, identifier string, unread map[string]any) (properties map[string]any, found bool, err error) {
	properties, age, found, err := c.account.Reads.Get(ctx, c.Type.Name, identifier, c.ageLimit(), c.readMany)
	properties = c.withUnread(properties, unread)
	if err != nil || !found || age <= freshAge || c.isAsWanted(identifier, properties) {
		return properties, found, err
	}
	properties, _, found, err = c.account.Reads.Get(ctx, c.Type.Name, identifier, 0, c.readMany)
	return c.withUnread(properties, unread), found, err
}

// ageLimit is how old the result of a read may be: 0 if the spec has changed or a user has requested a reconcile; more
// if the resource is at rest.
func (c *client) ageLimit() time.Duration {
	handled, _, _ := unstructured.NestedString(c.object.Object, "status", "lastHandledReconcileAt")
	observed, _, _ := unstructured.NestedInt64(c.object.Object, "status", "observedGeneration")
	switch requested := c.object.GetAnnotations()[resource.ReconcileRequestedAtAnnotation]; {
	case observed != c.object.GetGeneration() || requested != "" && requested != handled:
		return 0
	case c.object.GetDeletionTimestamp() == nil && c.isTrue(resource.Synced) && c.isTrue(resource.Ready):
		return maxAge
	}
	return freshAge
}

// Nothing has to be changed or reported: the resource can be used, and does not differ from what is wanted, or it
// differs and must not be updated.
func (c *client) isAsWanted(identifier string, properties map[string]any) bool {
	o, _ := c.observation(external.Ref(identifier), properties)
	return o.Ready == external.Yes && (o.UpToDate == external.Yes || !c.mayUpdate())
}

func (c *client) mayUpdate() bool {
	names, isSet, _ := unstructured.NestedStringSlice(c.object.Object, "spec", "managementPolicies")
	if !isSet {
		return true
	}
	policies := make(resource.Policies, 0, len(names))
	for _, name := range names {
		policies = append(policies, resource.Action(name))
	}
	return policies.Allow(resource.ActionUpdate)
}

// unread returns the properties that only the read of one resource returns, as they were at the last one. isKnown
// is false if they have to be read: after each operation and each change of the spec, and now and then if the
// user has set one of them.
func (c *client) unread(identifier string) (values map[string]any, isKnown bool) {
	shown, _, _ := unstructured.NestedMap(c.object.Object, "status", "atProvider")
	isWanted := slices.ContainsFunc(c.hooks.Unread, func(name string) bool { return c.wanted[name] != nil })
	last, isDue := c.account.Reads.last(c.Type.Name, identifier, isWanted)
	switch {
	case shown == nil || isDue:
		return nil, false
	case last != nil && (!isWanted || last.generation == c.object.GetGeneration()):
		return last.values, true
	}
	return shown, last == nil && (!isWanted || c.isTrue(resource.Synced))
}

func (c *client) isTrue(conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(c.object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == conditionType {
			generation, _, _ := unstructured.NestedInt64(condition, "observedGeneration")
			return condition["status"] == "True" && generation == c.object.GetGeneration()
		}
	}
	return false
}

// Only the read of one resource returns these properties.
func (c *client) withUnread(properties, unread map[string]any) map[string]any {
	if properties == nil || len(c.hooks.Unread) == 0 {
		return properties
	}
	out := maps.Clone(properties)
	for _, name := range c.hooks.Unread {
		if value, ok := unread[name]; ok && out[name] == nil {
			out[name] = value
		}
	}
	return out
}

func (c *client) isUnreadDifferent(properties map[string]any) bool {
	if len(c.hooks.Unread) == 0 {
		return false
	}
	differences := model.Compare(c.Type, c.normalized(c.wanted), c.normalized(properties)).Differences
	return slices.ContainsFunc(differences, func(d model.Difference) bool {
		name, _ := d.Path[0].(string)
		return slices.Contains(c.hooks.Unread, name)
	})
}

// It keeps what other reads leave out.
func (c *client) readAlone(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	properties, found, err = c.readOne(ctx, identifier)
	if err == nil && found {
		values := map[string]any{}
		for _, name := range c.hooks.Unread {
			if value, ok := properties[name]; ok {
				values[name] = value
			}
		}
		c.account.Reads.keep(c.Type.Name, identifier, &aloneRead{values: values, generation: c.object.GetGeneration()})
	}
	return properties, found, err
}

func (c *client) forgetReads(identifier string) {
	if c.hooks.ReadMany != nil && identifier != "" {
		c.account.Reads.Forget(c.Type.Name, identifier)
	}
}

func (c *client) readMany(ctx context.Context, identifiers []string) (map[string]map[string]any, error) {
	return inHalves(identifiers, func(some []string) (map[string]map[string]any, error) {
		if err := c.account.Limiter.Wait(ctx, reads); err != nil {
			return nil, err
		}
		found, err := c.hooks.ReadMany(ctx, c.account.Config, some)
		c.account.Limiter.Report(err)
		c.account.Metrics.CountReads(len(found), true)
		out := make(map[string]map[string]any, len(found))
		for id, r := range found {
			out[id] = r.Properties
		}
		return out, err
	})
}

// Each half is read if the response is too large. A resource that is too large by itself is left out, so it is read
// alone.
func inHalves(identifiers []string, read func([]string) (map[string]map[string]any, error)) (map[string]map[string]any, error) {
	found, err := read(identifiers)
	var tooLarge *response.TooLargeError
	switch {
	case !errors.As(err, &tooLarge):
		return found, err
	case len(identifiers) < 2:
		return nil, nil
	}
	out := map[string]map[string]any{}
	for half := range slices.Chunk(identifiers, (len(identifiers)+1)/2) {
		found, err := inHalves(half, read)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
	}
	return out, nil
}

func (c *client) readOne(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, false, err
	}
	c.account.Metrics.CountReads(1, false)
	if c.hooks.Handler != nil {
		properties, found, err = c.readHandled(ctx, identifier)
		c.account.Limiter.Report(err)
		return properties, found, err
	}
	return c.get(ctx, c.Type.Name, identifier)
}

func (c *client) get(ctx context.Context, typeName, identifier string) (properties map[string]any, found bool, err error) {
	out, err := c.account.API.GetResource(ctx, &cloudcontrol.GetResourceInput{
		TypeName: &typeName, Identifier: &identifier, RoleArn: optional(c.account.RoleARN),
	})
	c.account.Limiter.Report(err)
	switch {
	case isNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case out.ResourceDescription == nil || out.ResourceDescription.Properties == nil:
		return nil, false, errors.New("AWS has returned a resource without its properties")
	}
	properties, err = model.Decode([]byte(*out.ResourceDescription.Properties))
	if err != nil {
		return nil, false, fmt.Errorf("read the properties that AWS has returned: %w", err)
	}
	return properties, true, nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
