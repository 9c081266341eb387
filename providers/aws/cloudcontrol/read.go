package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// read reads a resource, together with others if that is possible.
func (c *client) read(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	if c.hooks.ReadMany == nil || c.account.Reads == nil {
		return c.readOne(ctx, identifier)
	}
	if unread, isKnown := c.unread(identifier); isKnown {
		properties, found, err = c.account.Reads.Get(ctx, c.Type.Name, identifier, c.readMany)
		if err != nil {
			return nil, false, err
		}
		if properties = c.withUnread(properties, unread); found && !c.isUnreadDifferent(properties) {
			return properties, true, nil
		}
		// Only the read of one resource is certain about its absence, and about what the others leave out.
	}
	return c.readAlone(ctx, identifier)
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
	return shown, last == nil && (!isWanted || c.isSynced())
}

// isSynced reports whether the status is about the resource as the spec wants it.
func (c *client) isSynced() bool {
	conditions, _, _ := unstructured.NestedSlice(c.object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == resource.Synced {
			generation, _, _ := unstructured.NestedInt64(condition, "observedGeneration")
			return condition["status"] == "True" && generation == c.object.GetGeneration()
		}
	}
	return false
}

// withUnread adds the properties that only the read of one resource returns.
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

// isUnreadDifferent reports whether one of the properties that were read earlier is not as it is wanted.
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

// readAlone reads a resource by itself, and keeps what other reads leave out.
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

// forgetReads drops what was read of a resource that changes.
func (c *client) forgetReads(identifier string) {
	if c.hooks.ReadMany != nil && identifier != "" {
		c.account.Reads.Forget(c.Type.Name, identifier)
	}
}

// readMany reads resources with the hook of the type.
func (c *client) readMany(ctx context.Context, identifiers []string) (map[string]map[string]any, error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, err
	}
	found, err := c.hooks.ReadMany(ctx, c.account.Config, identifiers)
	c.account.Limiter.Report(err)
	out := make(map[string]map[string]any, len(found))
	for id, r := range found {
		out[id] = r.Properties
	}
	return out, err
}

func (c *client) readOne(ctx context.Context, identifier string) (properties map[string]any, found bool, err error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, false, err
	}
	if c.hooks.Handler != nil {
		properties, found, err = c.readHandled(ctx, identifier)
		c.account.Limiter.Report(err)
		return properties, found, err
	}
	out, err := c.account.API.GetResource(ctx, &cloudcontrol.GetResourceInput{
		TypeName: &c.Type.Name, Identifier: &identifier, RoleArn: optional(c.account.RoleARN),
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

// Bounds of a search.
const (
	maxPages = 200
	// maxReads bounds the resources that are read since a list leaves their tags out.
	maxReads = 5000
	// maxFound bounds the resources with the mark, which are kept.
	maxFound = 5000
)

// Find lists the resources with a mark.
func (c *client) Find(ctx context.Context, _ *unstructured.Unstructured, _ external.Key, mark external.Mark) ([]external.Observation, error) {
	input := &cloudcontrol.ListResourcesInput{TypeName: &c.Type.Name, RoleArn: optional(c.account.RoleARN)}
	given, err := model.ListModel(c.Type, c.creation)
	if err != nil {
		return nil, err
	}
	if given != nil {
		raw, err := encode(given)
		if err != nil {
			return nil, err
		}
		input.ResourceModel = &raw
	}
	var out []external.Observation
	count := 0
	for range maxPages {
		page, err := c.list(ctx, input)
		if err != nil {
			return nil, c.readError("list", err)
		}
		var unknown []string
		for _, d := range page.ResourceDescriptions {
			id := aws.ToString(d.Identifier)
			properties, _ := model.Decode([]byte(aws.ToString(d.Properties))) // without valid ones, it is read
			if _, hasTags := properties[c.tags.Property]; !hasTags {
				unknown = append(unknown, id)
			} else if c.carries(properties, mark) {
				o, _ := c.observation(external.Ref(id), properties)
				out = append(out, o)
			}
		}
		if count += len(unknown); count > maxReads {
			return nil, fmt.Errorf("there are more than %d resources of type %s whose tags are not in the list; they are not searched: set the annotation crossplane.io/external-name", maxReads, c.Type.Name)
		}
		found, err := c.readAll(ctx, unknown)
		if err != nil {
			return nil, c.readError("read", err)
		}
		for _, id := range unknown {
			if properties := found[id]; c.carries(properties, mark) {
				o, _ := c.observation(external.Ref(id), properties)
				out = append(out, o)
			}
		}
		if len(out) > maxFound {
			return nil, fmt.Errorf("more than %d resources of type %s carry the mark; they are not searched", maxFound, c.Type.Name)
		}
		if input.NextToken = page.NextToken; aws.ToString(page.NextToken) == "" {
			return out, nil
		}
	}
	return nil, fmt.Errorf("the list of resources of type %s has more than %d pages; it is not searched: set the annotation crossplane.io/external-name", c.Type.Name, maxPages)
}

// readAll reads resources, many at once if the type has a hook for that. Those that do not exist are left out.
func (c *client) readAll(ctx context.Context, identifiers []string) (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	if c.hooks.ReadMany != nil {
		for some := range slices.Chunk(identifiers, maxBatch) {
			found, err := c.readMany(ctx, some)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, found)
		}
	}
	for _, id := range identifiers {
		if out[id] != nil {
			continue
		}
		properties, found, err := c.readOne(ctx, id)
		if err != nil {
			return nil, err
		}
		if found {
			out[id] = properties
		}
	}
	return out, nil
}

func (c *client) list(ctx context.Context, input *cloudcontrol.ListResourcesInput) (*cloudcontrol.ListResourcesOutput, error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, err
	}
	page, err := c.account.API.ListResources(ctx, input)
	c.account.Limiter.Report(err)
	return page, err
}

// carries reports whether a resource carries a mark with the ID, or, if that is empty, with the owner.
func (c *client) carries(properties map[string]any, mark external.Mark) bool {
	has := c.mark(properties)
	if has == nil {
		return false
	}
	if mark.ID == "" {
		return has.Owner == mark.Owner
	}
	return has.ID == mark.ID
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
