package awscloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Found is a resource as the cloud's native APIs describe it. Its properties are in the shape of the type's schema.
type Found struct {
	Identifier string
	Properties map[string]any
}

// Tags returns the resource's tags.
func (f Found) Tags() map[string]string {
	out := map[string]string{}
	switch tags := f.Properties["Tags"].(type) {
	case []any:
		for _, tag := range tags {
			out[text(value(tag, []string{"Key"}))] = text(value(tag, []string{"Value"}))
		}
	case map[string]any:
		for key, v := range tags {
			out[key] = text(v)
		}
	}
	return out
}

// Find returns the resources of a type that have a tag, all of them if the key is empty. It asks the
// cloud's native APIs only, in the default account and region, and neither counts as a call nor is
// subject to faults. It fails for types that are not listed natively; the package's documentation has
// those that are.
func (c *Cloud) Find(ctx context.Context, typeName, tagKey, tagValue string) ([]Found, error) {
	t, err := c.typeOf(typeName)
	if err != nil {
		return nil, err
	}
	in := c.here(typeName)
	identifiers, isNative, err := c.nativeList(ctx, t, in)
	if err != nil {
		return nil, err
	}
	if !isNative {
		return nil, fmt.Errorf("find resources of the type %s: the test cloud does not list them natively", typeName)
	}
	var out []Found
	for _, id := range identifiers {
		found, err := c.Describe(ctx, typeName, id)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue // It was deleted meanwhile.
		}
		if tagKey == "" || found.Tags()[tagKey] == tagValue {
			out = append(out, *found)
		}
	}
	return out, nil
}

// Describe returns a resource as the cloud's native APIs describe it, nil if it does not exist. It
// fails for types that are not read natively.
func (c *Cloud) Describe(ctx context.Context, typeName, identifier string) (*Found, error) {
	t, err := c.typeOf(typeName)
	if err != nil {
		return nil, err
	}
	if _, ok := natives[typeName]; !ok && readers[typeName].read == nil {
		return nil, fmt.Errorf("describe a resource of the type %s: the test cloud does not read it natively", typeName)
	}
	properties, err := c.native(ctx, t, c.here(typeName), identifier)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Found{identifier, properties}, nil
}

// Native calls an action of a native API of the query protocol, such as EC2's CreateTags, in the
// default account and region, and returns the texts at a path of the answer's elements, if it is given:
// for changes behind the controllers' backs, and for what Find and Describe do not tell.
func (c *Cloud) Native(ctx context.Context, service, action string, parameters map[string]string,
	path ...string) (string, error) {
	if versions[service] == "" {
		return "", errors.New("the test cloud does not call the service " + service + " with the query protocol")
	}
	answer, err := c.here("").from.query(ctx, service, action, parameters)
	if err != nil {
		return "", err
	}
	return answer.get(path...).text, nil
}

// NativeREST calls a native API of the REST or JSON protocol, such as EKS's, in the default account and region. The
// target is that of the JSON protocol, empty for REST.
func (c *Cloud) NativeREST(ctx context.Context, service, method, path, target string, body []byte) error {
	contentType := ""
	if target != "" {
		contentType = "application/x-amz-json-1.1"
	}
	_, err := c.here("").from.send(ctx, service, method, path, contentType, target, body)
	return err
}

// NativeNames reads a path of a native API of the REST protocol, such as CloudFront's, in the default account and
// region, and returns the texts of all elements of a name in the answer.
func (c *Cloud) NativeNames(ctx context.Context, service, path, element string) ([]string, error) {
	answer, err := c.here("").from.send(ctx, service, http.MethodGet, path, "", "", nil)
	if err != nil {
		return nil, err
	}
	return answer.texts(element), nil
}

// Sent returns the properties that a resource was last set to, write-only ones included. It is what the
// Cloud Control API here sent to CloudFormation, and not the native state.
func (c *Cloud) Sent(typeName, identifier string) map[string]any {
	r, ok := c.stored(keyOf(c.here(typeName), identifier))
	if !ok {
		return nil
	}
	return cloneObject(r.properties)
}

// defaultAccount is the account of credentials that name none.
const defaultAccount = "000000000000"

// here is a call in the default account and region.
func (c *Cloud) here(typeName string) input {
	return input{TypeName: typeName, account: defaultAccount, from: caller{base: c.backend, client: c.client,
		accessKey: "test", region: c.region}}
}
