package awscloud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// key is where a resource is.
type key struct{ account, region, typeName, identifier string }

// globalServices have their resources in all regions.
var globalServices = []string{"AWS::IAM::", "AWS::CloudFront::", "AWS::Route53::", "AWS::Organizations::"}

func keyOf(in input, identifier string) key {
	region := in.from.region
	if slices.ContainsFunc(globalServices, func(prefix string) bool {
		return strings.HasPrefix(in.TypeName,
			prefix)
	}) {
		region = ""
	}
	return key{in.account, region, in.TypeName, identifier}
}

// resource is a resource that was created through the Cloud Control API.
type resource struct {
	// stack has the resource.
	stack string
	// physical is its physical ID in the stack.
	physical string
	// properties are those of the stack's template.
	properties map[string]any
	// attributes are read-only properties, as CloudFormation returned them.
	attributes map[string]any

	// changed is when the last effect was there, and before what a read showed then; nil if nothing.
	changed time.Time
	before  map[string]any
	deleted bool
}

func notFound(typeName, identifier string) error {
	return &apiError{"ResourceNotFoundException", fmt.Sprintf(
		"Resource of type '%s' with identifier '%s' was not found.", typeName, identifier)}
}

func (c *Cloud) stored(k key) (resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.resources[k]
	if !ok || r.deleted {
		return resource{}, false
	}
	return *r, true
}

func (c *Cloud) store(k key, r resource, before map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.changed, r.before = c.now(), before
	c.resources[k] = &r
}

// model returns the properties of a resource as a read shows them: what it was created with, below what
// CloudFormation returned, below the native state.
func (c *Cloud) model(ctx context.Context, t *resourcetype.Type, in input,
	identifier string) (map[string]any, error) {
	r, isStored := c.stored(keyOf(in, identifier))
	native, err := c.native(ctx, t, in, identifier)
	if isNotFound(err) || err == nil && native == nil && !isStored {
		return nil, notFound(in.TypeName, identifier)
	}
	if err != nil {
		return nil, err
	}
	out := overlay(overlay(r.properties, r.attributes), native)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	setIdentifier(t, out, identifier)
	out = without(out, t.WriteOnlyProperties)
	dropEmpty(out, t.WriteOnlyProperties)
	return out, nil
}

// dropEmpty removes the objects that only had write-only properties.
func dropEmpty(properties map[string]any, writeOnly []resourcetype.Path) {
	for _, path := range writeOnly {
		for n := len(path) - 1; n > 0; n-- {
			if object, ok := value(properties, path[:n]).(map[string]any); ok && len(object) == 0 {
				remove(properties, path[:n])
			}
		}
	}
}

// visible is model as of the time before the lag of reads.
func (c *Cloud) visible(ctx context.Context, t *resourcetype.Type, in input,
	identifier string) (map[string]any, error) {
	c.mu.Lock()
	r := c.resources[keyOf(in, identifier)]
	stale := r != nil && c.now().Before(r.changed.Add(c.behavior.lag))
	var before map[string]any
	if stale {
		before = r.before
	}
	c.mu.Unlock()
	switch {
	case !stale:
		return c.model(ctx, t, in, identifier)
	case before == nil:
		return nil, notFound(in.TypeName, identifier)
	default:
		return before, nil
	}
}

// identifiers returns the identifiers of a type's resources: those that were created here and those
// that native APIs list.
func (c *Cloud) identifiers(ctx context.Context, t *resourcetype.Type, in input) ([]string, error) {
	listed, isNative, err := c.nativeList(ctx, t, in)
	if err != nil {
		return nil, err
	}
	at := keyOf(in, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for k, r := range c.resources {
		id := k.identifier
		k.identifier = ""
		if k != at {
			continue
		}
		stale := now.Before(r.changed.Add(c.behavior.lag))
		switch {
		case stale && r.before == nil:
			listed = slices.DeleteFunc(listed, func(other string) bool { return other == id })
		case stale, !isNative && !r.deleted:
			listed = append(listed, id)
		}
	}
	slices.Sort(listed)
	return slices.Compact(listed), nil
}

func (c *Cloud) createEffect(ctx context.Context, r *request, t *resourcetype.Type, in input,
	want map[string]any) (map[string]any, error) {
	if id, ok := c.predict(t, in, want); ok {
		if _, err := c.model(ctx, t, in, id); err == nil {
			return nil, &failure{"AlreadyExists", fmt.Sprintf(
				"Resource of type '%s' with identifier '%s' already exists.", t.Name, id)}
		}
	}
	stack := "cc-" + r.token
	body, err := template(t.Name, want, nil)
	if err != nil {
		return nil, err
	}
	physical, err := in.from.createStack(ctx, stack, body)
	if err != nil {
		return nil, err
	}
	attributes, err := c.attributesOf(ctx, in.from, t, stack, want)
	if err != nil {
		return nil, err
	}
	id := c.identify(t, in, physical, want, attributes)
	if complete := readers[t.Name].complete; complete != nil {
		if err := complete(ctx, in.from, id, want); err != nil {
			return nil, err
		}
	}
	k := keyOf(in, id)
	c.store(k, resource{stack: stack, physical: physical, properties: want, attributes: attributes}, nil)
	c.mu.Lock()
	r.identifier = id
	c.busy[k] = r
	c.mu.Unlock()
	return c.model(ctx, t, in, id)
}

// updateEffect changes a resource from base, which was read, to want.
func (c *Cloud) updateEffect(ctx context.Context, t *resourcetype.Type, in input, base,
	want map[string]any) (map[string]any, error) {
	k := keyOf(in, in.Identifier)
	r, err := c.adopt(ctx, t, in, base)
	if err != nil {
		return nil, err
	}
	// CloudFormation compares templates, so that a patch back to the template's value would have no effect: first the
	// template becomes what the resource is.
	current := drifted(t, r.properties, base, want)
	if !reflect.DeepEqual(current, r.properties) {
		if err := c.apply(ctx, in.from, t, &r, current); err != nil {
			return nil, err
		}
	}
	if err := c.apply(ctx, in.from, t, &r, templateOf(current, base, want)); err != nil {
		return nil, err
	}
	r.properties = templateOf(current, base, want)
	if complete := readers[t.Name].complete; complete != nil {
		if err := complete(ctx, in.from, in.Identifier, want); err != nil {
			return nil, err
		}
	}
	attributes, err := c.attributesOf(ctx, in.from, t, r.stack, r.properties)
	if err != nil {
		return nil, err
	}
	r.attributes = attributes
	c.store(k, r, base)
	return c.model(ctx, t, in, in.Identifier)
}

func (c *Cloud) apply(ctx context.Context, from caller, t *resourcetype.Type, r *resource,
	properties map[string]any) error {
	body, err := template(t.Name, properties, nil)
	if err != nil {
		return err
	}
	_, err = from.updateStack(ctx, r.stack, body)
	return err
}

// drifted returns the template's properties as the resource has them, and those that change. Write-only
// properties, which reads do not show, stay as they are.
func drifted(t *resourcetype.Type, old, base, want map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range old {
		hidden := without(map[string]any{name: v}, t.WriteOnlyProperties)
		dropEmpty(hidden, t.WriteOnlyProperties)
		if _, shown := hidden[name]; !shown {
			out[name] = v
		}
	}
	for name, v := range without(base, t.ReadOnlyProperties) {
		if _, ok := old[name]; ok || !reflect.DeepEqual(v, want[name]) {
			out[name] = overlay(map[string]any{name: old[name]}, map[string]any{name: v})[name]
		}
	}
	return out
}

// templateOf returns the properties of want that the template has already, or that differ from base:
// defaults that a read shows are not in the template.
func templateOf(old, base, want map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range want {
		if _, ok := old[name]; ok || !reflect.DeepEqual(v, base[name]) {
			out[name] = v
		}
	}
	return out
}

func (c *Cloud) deleteEffect(ctx context.Context, t *resourcetype.Type, in input) error {
	base, err := c.model(ctx, t, in, in.Identifier)
	if err != nil {
		return err
	}
	if reader := readers[t.Name]; reader.blocked != nil {
		r, _ := c.stored(keyOf(in, in.Identifier))
		if err := reader.blocked(ctx, in.from, in.Identifier, r.properties); err != nil {
			return err
		}
	}
	r, err := c.adopt(ctx, t, in, base)
	if err != nil {
		return err
	}
	if err := in.from.deleteStack(ctx, r.stack); err != nil {
		return err
	}
	r.deleted = true
	c.store(keyOf(in, in.Identifier), r, base)
	return nil
}

// adopt returns a resource, and makes a stack for one that was created natively, which the
// implementation can do for some types.
func (c *Cloud) adopt(ctx context.Context, t *resourcetype.Type, in input, base map[string]any) (resource, error) {
	k := keyOf(in, in.Identifier)
	if r, ok := c.stored(k); ok {
		return r, nil
	}
	properties := without(base, t.ReadOnlyProperties)
	stack := fmt.Sprintf("cc-import-%x", c.Now().UnixNano())
	body, err := template(t.Name, properties, nil)
	if err != nil {
		return resource{}, err
	}
	parts := map[string]string{
		"StackName": stack, "ChangeSetName": "import", "ChangeSetType": "IMPORT", "TemplateBody": body, "Capabilities.member.1": "CAPABILITY_NAMED_IAM",
		"ResourcesToImport.member.1.ResourceType": t.Name, "ResourcesToImport.member.1.LogicalResourceId": logicalName,
	}
	for i, path := range t.PrimaryIdentifier {
		entry := fmt.Sprintf("ResourcesToImport.member.1.ResourceIdentifier.entry.%d.", i+1)
		parts[entry+"key"], parts[entry+"value"] = strings.Join(path, "."), text(value(base, path))
	}
	if _, err := in.from.query(ctx, "cloudformation", "CreateChangeSet", parts); err != nil {
		return resource{}, err
	}
	if _, err := in.from.query(ctx, "cloudformation", "ExecuteChangeSet",
		map[string]string{"StackName": stack, "ChangeSetName": "import"}); err != nil {
		return resource{}, &failure{"GeneralServiceException", fmt.Sprintf(
			"The test cloud cannot change or delete a %s that was created natively: %v", t.Name, err)}
	}
	if err := in.from.settleImport(ctx, stack); err != nil {
		return resource{}, err
	}
	r := resource{stack: stack, physical: in.Identifier, properties: properties}
	c.store(k, r, base)
	return r, nil
}

// codes are the error codes of handlers by a part of what native APIs say.
var codes = [][2]string{
	{"AlreadyExist", "AlreadyExists"}, {"already exist", "AlreadyExists"}, {"EntityAlreadyExists", "AlreadyExists"},
	{"does not exist", "NotFound"}, {"NotFound", "NotFound"}, {"not found", "NotFound"},
	{"DependencyViolation", "InvalidRequest"}, {"DeleteConflict", "InvalidRequest"}, {"BucketNotEmpty",
		"GeneralServiceException"},
	{"ResourceInUse", "ResourceConflict"}, {"Unrecognized resource types", "InvalidRequest"}, {"Invalid",
		"InvalidRequest"},
}

// classify returns the failure of a request whose effect failed.
func classify(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	if e := (*apiError)(nil); errors.As(err, &e) {
		return &failure{strings.TrimPrefix(strings.TrimSuffix(e.code, "Exception"), "Resource"), e.message}
	}
	for _, code := range codes {
		if strings.Contains(err.Error(), code[0]) {
			return &failure{code[1], err.Error()}
		}
	}
	return &failure{"GeneralServiceException", err.Error()}
}
