package awscloud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// resourcesPage is the size of a page of ListResources. AWS's is not documented.
const resourcesPage = 100

// description is a resource in the answers of reads and lists.
type description struct{ Identifier, Properties string }

// supports returns the schema of a type that has a handler for a verb.
func (c *Cloud) supports(name string, verb resourcetype.Verb) (*resourcetype.Type, error) {
	t, err := c.typeOf(name)
	if err != nil {
		return nil, err
	}
	if _, ok := t.Handlers[verb]; !ok {
		return nil, &apiError{"UnsupportedActionException", fmt.Sprintf(
			"Resource type %s does not support %s action", name, strings.ToUpper(string(verb)))}
	}
	return t, nil
}

func (c *Cloud) create(in input) (any, error) {
	c.beginning.Lock()
	defer c.beginning.Unlock()
	if answer, ok, err := c.repeated(CreateResource, in); ok {
		return answer, err
	}
	t, err := c.supports(in.TypeName, resourcetype.Create)
	if err != nil {
		return nil, err
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(in.DesiredState), &want); err != nil {
		return nil, &apiError{"InvalidRequestException", "The DesiredState is not a JSON object: " + err.Error()}
	}
	if err := validate(t, want); err != nil {
		return nil, err
	}
	if path, ok := readOnly(t, want); ok {
		return nil, &apiError{"InvalidRequestException", fmt.Sprintf(
			"Invalid desired state: Encountered read-only properties [%s]", path)}
	}
	id, _ := identifier(t, want)
	return c.begin("CREATE", CreateResource, in, id, func(r *request) (map[string]any, error) {
		return c.createEffect(c.ctx, r, t, in, want)
	})
}

func (c *Cloud) read(ctx context.Context, in input) (any, error) {
	t, err := c.supports(in.TypeName, resourcetype.Read)
	if err != nil {
		return nil, err
	}
	properties, err := c.visible(ctx, t, in, in.Identifier)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(properties)
	return struct {
		TypeName            string
		ResourceDescription description
	}{in.TypeName, description{in.Identifier, string(raw)}}, err
}

func (c *Cloud) update(ctx context.Context, in input) (any, error) {
	c.beginning.Lock()
	defer c.beginning.Unlock()
	if answer, ok, err := c.repeated(UpdateResource, in); ok {
		return answer, err
	}
	t, err := c.supports(in.TypeName, resourcetype.Update)
	if err != nil {
		return nil, err
	}
	base, err := c.model(ctx, t, in, in.Identifier)
	if err != nil {
		return nil, err
	}
	want, err := c.patched(t, base, in.PatchDocument)
	if err != nil {
		return nil, err
	}
	return c.begin("UPDATE", UpdateResource, in, in.Identifier, func(*request) (map[string]any, error) {
		return c.updateEffect(c.ctx, t, in, base, want)
	})
}

// patched returns what a patch makes of a resource that was read, without its read-only properties.
// Write-only properties are only in it if the patch has them, as in AWS.
func (c *Cloud) patched(t *resourcetype.Type, base map[string]any, document string) (map[string]any, error) {
	want, err := patch(base, document)
	if err != nil {
		return nil, &apiError{"ValidationException", "Invalid patch document: " + err.Error()}
	}
	for _, path := range t.ReadOnlyProperties {
		if !reflect.DeepEqual(values(want, path), values(base, path)) {
			return nil, &apiError{"ValidationException", fmt.Sprintf(
				"Invalid patch update: readOnlyProperties [/properties/%s] cannot be updated", strings.Join(path, "/"))}
		}
	}
	for _, path := range t.CreateOnlyProperties {
		// A write-only property is not in what was read, so that a patch that carries it does not change it.
		if isUnder(path, t.WriteOnlyProperties) {
			continue
		}
		if !reflect.DeepEqual(values(without(want, t.WriteOnlyProperties), path), values(base, path)) {
			return nil, &apiError{"NotUpdatableException", fmt.Sprintf(
				"Invalid patch update: createOnlyProperties [/properties/%s] cannot be updated", strings.Join(path, "/"))}
		}
	}
	want = without(want, t.ReadOnlyProperties)
	if err := validate(t, want); err != nil {
		return nil, err
	}
	return want, nil
}

func isUnder(path resourcetype.Path, parents []resourcetype.Path) bool {
	return slices.ContainsFunc(parents, func(parent resourcetype.Path) bool {
		return len(parent) <= len(path) && slices.Equal(parent, path[:len(parent)])
	})
}

func (c *Cloud) delete(in input) (any, error) {
	c.beginning.Lock()
	defer c.beginning.Unlock()
	if answer, ok, err := c.repeated(DeleteResource, in); ok {
		return answer, err
	}
	t, err := c.supports(in.TypeName, resourcetype.Delete)
	if err != nil {
		return nil, err
	}
	return c.begin("DELETE", DeleteResource, in, in.Identifier, func(*request) (map[string]any, error) {
		return nil, c.deleteEffect(c.ctx, t, in)
	})
}

func (c *Cloud) list(ctx context.Context, in input) (any, error) {
	t, err := c.supports(in.TypeName, resourcetype.List)
	if err != nil {
		return nil, err
	}
	filter := map[string]any{}
	if in.ResourceModel != "" {
		if err := json.Unmarshal([]byte(in.ResourceModel), &filter); err != nil {
			return nil, &apiError{"InvalidRequestException", "The ResourceModel is not a JSON object: " + err.Error()}
		}
	}
	if s := t.Handlers[resourcetype.List].HandlerSchema; s != nil {
		for _, name := range s.Required {
			if _, ok := filter[name]; !ok {
				return nil, &apiError{"InvalidRequestException", fmt.Sprintf(
					"Missing Or Invalid ResourceModel property in %s list handler request input. Required property: [%s]", in.TypeName, name)}
			}
		}
	}
	identifiers, err := c.identifiers(ctx, t, in)
	if err != nil {
		return nil, err
	}
	all := []description{}
	c.mu.Lock()
	full := c.behavior.fullLists
	c.mu.Unlock()
	for _, id := range identifiers {
		short := map[string]any{}
		setIdentifier(t, short, id)
		properties := short
		if full || len(filter) > 0 {
			if properties, err = c.visible(ctx, t, in, id); err != nil {
				continue // It is being deleted.
			}
			if !contains(properties, filter) {
				continue
			}
		}
		if !full {
			properties = short
		}
		raw, err := json.Marshal(properties)
		if err != nil {
			return nil, err
		}
		all = append(all, description{id, string(raw)})
	}
	size := resourcesPage
	if in.MaxResults > 0 {
		size = min(in.MaxResults, resourcesPage)
	}
	page, next, err := pageOf(all, in.NextToken, size)
	return struct {
		TypeName             string
		ResourceDescriptions []description
		NextToken            string `json:",omitempty"`
	}{in.TypeName, page, next}, err
}

func contains(properties, filter map[string]any) bool {
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		if !reflect.DeepEqual(properties[name], filter[name]) {
			return false
		}
	}
	return true
}
