package awscloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Each resource is a CloudFormation stack with one resource of this logical name.
const logicalName = "R"

const (
	stackPoll  = 20 * time.Millisecond
	stackLimit = 5 * time.Minute
)

// template returns the template of a stack. Its outputs are attributes of the resource.
func template(typeName string, properties map[string]any, attributes []attribute) (string, error) {
	// Some types are kept, or their data is, if the template does not say otherwise.
	resource := map[string]any{"Type": typeName, "Properties": properties, "DeletionPolicy": "Delete",
		"UpdateReplacePolicy": "Delete"}
	document := map[string]any{"AWSTemplateFormatVersion": "2010-09-09",
		"Resources": map[string]any{logicalName: resource}}
	if len(attributes) > 0 {
		outputs := map[string]any{}
		for i, a := range attributes {
			var value any = map[string]any{"Fn::GetAtt": []string{logicalName, a.name}}
			if a.list {
				value = map[string]any{"Fn::Join": []any{separator, value}}
			}
			outputs[fmt.Sprint("O", i)] = map[string]any{"Value": value}
		}
		document["Outputs"] = outputs
	}
	raw, err := json.Marshal(document)
	return string(raw), err
}

// attribute is an attribute of a resource in CloudFormation: a value, or a list of strings.
type attribute struct {
	name string
	list bool
	// text is whether the type's schema says that it is a string.
	text bool
}

// separator is between the items of a list in an output.
const separator = "|"

// createStack creates a resource, and returns its physical ID.
func (c caller) createStack(ctx context.Context, stack, body string) (string, error) {
	if _, err := c.query(ctx, "cloudformation", "CreateStack", map[string]string{"StackName": stack,
		"TemplateBody": body, "Capabilities.member.1": "CAPABILITY_NAMED_IAM"}); err != nil {
		return "", err
	}
	if _, err := c.settle(ctx, stack); err != nil {
		return "", err
	}
	detail, err := c.query(ctx, "cloudformation", "DescribeStackResource",
		map[string]string{"StackName": stack, "LogicalResourceId": logicalName})
	if err != nil {
		return "", err
	}
	return detail.get("DescribeStackResourceResult", "StackResourceDetail", "PhysicalResourceId").text, nil
}

// updateStack updates a resource, and returns the outputs of its stack.
func (c caller) updateStack(ctx context.Context, stack, body string) (*node, error) {
	_, err := c.query(ctx, "cloudformation", "UpdateStack", map[string]string{"StackName": stack,
		"TemplateBody": body, "Capabilities.member.1": "CAPABILITY_NAMED_IAM"})
	if err != nil && !strings.Contains(err.Error(), "No updates are to be performed") {
		return nil, err
	}
	return c.settle(ctx, stack)
}

func (c caller) deleteStack(ctx context.Context, stack string) error {
	if _, err := c.query(ctx, "cloudformation", "DeleteStack", map[string]string{"StackName": stack}); err != nil {
		return err
	}
	_, err := c.settle(ctx, stack)
	if e := (*nativeError)(nil); errors.As(err, &e) && strings.Contains(e.message, "does not exist") {
		return nil
	}
	return err
}

// stackError is why CloudFormation failed.
type stackError struct{ reason string }

func (e *stackError) Error() string { return e.reason }

// settle waits until a stack does not change any more. It returns the stack, or an error with the
// reason of a failure.
func (c caller) settle(ctx context.Context, stack string) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, stackLimit)
	defer cancel()
	poll := time.NewTicker(stackPoll)
	defer poll.Stop()
	for {
		answer, err := c.query(ctx, "cloudformation", "DescribeStacks", map[string]string{"StackName": stack})
		if err != nil {
			return nil, err
		}
		description := answer.get("DescribeStacksResult", "Stacks", "member")
		switch status := description.get("StackStatus").text; {
		case strings.HasSuffix(status, "_IN_PROGRESS"):
		case slices.Contains([]string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"}, status):
			return description, nil
		default:
			return nil, &stackError{c.reason(ctx, stack, status)}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the stack %s: %w", stack, ctx.Err())
		case <-poll.C:
		}
	}
}

// reason finds why a stack failed in its events. The newest event is the first.
func (c caller) reason(ctx context.Context, stack, status string) string {
	for _, list := range [][2]string{{"DescribeStackEvents", "StackEvents"}, {"DescribeEvents", "OperationEvents"}} {
		events, err := c.query(ctx, "cloudformation", list[0], map[string]string{"StackName": stack})
		if err != nil {
			continue
		}
		for _, event := range events.get(list[0]+"Result", list[1]).items {
			reason := event.get("ResourceStatusReason").text + event.get("ValidationStatusReason").text
			failed := strings.Contains(event.get("ResourceStatus").text, "FAILED") || event.get(
				"ValidationStatusReason").text != ""
			if failed && reason != "" && !strings.HasPrefix(reason,
				"The following resource(s)") && !strings.HasPrefix(reason, "Validation failed with") {
				return plain(reason)
			}
		}
	}
	return "the stack is " + status
}

// embeddedError is an error of a native API in the text of an event.
var embeddedError = regexp.MustCompile(`(?s)<Code>(.*?)</Code>.*?<Message>(.*?)</Message>`)

func plain(reason string) string {
	if m := embeddedError.FindStringSubmatch(reason); m != nil {
		return strings.ReplaceAll(m[2], `\'`, `'`) + " (" + m[1] + ")"
	}
	return reason
}

// unknownAttribute is how CloudFormation rejects an attribute that it does not have for a type.
var unknownAttribute = regexp.MustCompile(`Requested attribute (\S+) does not exist`)

// attributesOf reads the attributes of a resource: the read-only properties that CloudFormation has for
// the type. Which those are is learned from errors with the first resource of the type.
func (c *Cloud) attributesOf(ctx context.Context, from caller, t *resourcetype.Type, stack string,
	properties map[string]any) (map[string]any, error) {
	names := c.learned(t)
	for len(names) > 0 {
		body, err := template(t.Name, properties, names)
		if err != nil {
			return nil, err
		}
		description, err := from.updateStack(ctx, stack, body)
		if err == nil {
			c.learn(t.Name, names)
			return outputs(t, description, names), nil
		}
		m := unknownAttribute.FindStringSubmatch(err.Error())
		known := len(names)
		if m != nil {
			names = slices.DeleteFunc(slices.Clone(names), func(a attribute) bool { return a.name == m[1] })
		}
		// CloudFormation does not say which one of the others it cannot write.
		if strings.Contains(err.Error(), "must evaluate to a String") {
			names = slices.DeleteFunc(slices.Clone(names), func(a attribute) bool { return !a.text })
		}
		if len(names) == known {
			return nil, err
		}
	}
	c.learn(t.Name, names)
	return map[string]any{}, nil
}

func (c *Cloud) learned(t *resourcetype.Type) []attribute {
	c.mu.Lock()
	defer c.mu.Unlock()
	if names, ok := c.attributes[t.Name]; ok {
		return names
	}
	var names []attribute
	for _, path := range t.ReadOnlyProperties {
		s := t.Resolve(schemaAt(t, path))
		if s == nil || kindOf(s) == "object" {
			continue
		}
		isList := kindOf(s) == "array"
		if items := t.Resolve(s.Items); isList && (items == nil || kindOf(items) != "string") {
			continue
		}
		names = append(names, attribute{strings.Join(path, "."), isList, kindOf(s) == "string"})
	}
	return names
}

func (c *Cloud) learn(typeName string, names []attribute) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attributes[typeName] = names
}

// outputs returns the outputs of a stack as properties.
func outputs(t *resourcetype.Type, stack *node, names []attribute) map[string]any {
	values := map[string]*node{}
	for _, output := range stack.get("Outputs").items {
		values[output.get("OutputKey").text] = output.get("OutputValue")
	}
	out := map[string]any{}
	for i, a := range names {
		value := values[fmt.Sprint("O", i)]
		if value == nil || value.text == "" {
			continue
		}
		if a.list {
			value = nodeOf(anys(strings.Split(value.text, separator)))
		}
		path := strings.Split(a.name, ".")
		if converted := convert(t, schemaAt(t, path), value, a.name, nil); converted != nil {
			set(out, path, converted)
		}
	}
	return out
}

func schemaAt(t *resourcetype.Type, path []string) *resourcetype.Schema {
	s := &t.Schema
	for _, name := range path {
		if s = t.Resolve(s); s == nil {
			return nil
		}
		s = s.Properties[name]
	}
	return s
}

// settleImport waits until a stack has imported its resource.
func (c caller) settleImport(ctx context.Context, stack string) error {
	for range 100 {
		answer, err := c.query(ctx, "cloudformation", "DescribeStacks", map[string]string{"StackName": stack})
		if err != nil {
			return err
		}
		status := answer.get("DescribeStacksResult", "Stacks", "member", "StackStatus").text
		if status == "IMPORT_COMPLETE" {
			return nil
		}
		if !strings.HasSuffix(status, "_IN_PROGRESS") {
			return &stackError{c.reason(ctx, stack, status)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stackPoll):
		}
	}
	return fmt.Errorf("the stack %s is still importing its resource", stack)
}
