package awscloud

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = clone(value)
		}
		return out
	default:
		return v
	}
}

func cloneObject(v map[string]any) map[string]any { return clone(v).(map[string]any) }

// value returns what is at a path without wildcards, or nil.
func value(v any, path []string) any {
	for _, name := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

func set(object map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	object[path[len(path)-1]] = v
}

// values returns what is at a path, once for each item of wildcards.
func values(v any, path []string) []any {
	if len(path) == 0 {
		return []any{v}
	}
	var out []any
	switch v := v.(type) {
	case []any:
		rest := path
		if path[0] == "*" {
			rest = path[1:]
		}
		for _, item := range v {
			out = append(out, values(item, rest)...)
		}
	case map[string]any:
		if path[0] == "*" {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				out = append(out, values(v[name], path[1:])...)
			}
		} else if next, ok := v[path[0]]; ok {
			out = values(next, path[1:])
		}
	}
	return out
}

// remove removes what is at a path.
func remove(v any, path []string) {
	switch v := v.(type) {
	case []any:
		rest := path
		if path[0] == "*" && len(path) > 1 {
			rest = path[1:]
		}
		for _, item := range v {
			remove(item, rest)
		}
	case map[string]any:
		switch {
		case path[0] == "*" && len(path) > 1:
			for _, next := range v {
				remove(next, path[1:])
			}
		case len(path) == 1:
			delete(v, path[0])
		default:
			remove(v[path[0]], path[1:])
		}
	}
}

// without returns properties without those at paths.
func without(properties map[string]any, paths []resourcetype.Path) map[string]any {
	out := cloneObject(properties)
	for _, path := range paths {
		remove(out, path)
	}
	return out
}

// overlay returns the properties in base with those of the cloud's native state in their place; nil
// stands for properties that the native state does not have. Objects are merged, since native
// descriptions lack some of their properties.
func overlay(base, native map[string]any) map[string]any {
	out := cloneObject(base)
	for name, v := range native {
		object, isObject := v.(map[string]any)
		old, wasObject := out[name].(map[string]any)
		switch {
		case v == nil:
			delete(out, name)
		case isObject && wasObject:
			out[name] = overlay(old, object)
		default:
			out[name] = clone(v)
		}
	}
	return out
}

// identifier joins the values of the primary identifier. It reports false if one is missing.
func identifier(t *resourcetype.Type, properties map[string]any) (string, bool) {
	var parts []string
	for _, path := range t.PrimaryIdentifier {
		part := value(properties, path)
		if part == nil || part == "" {
			return "", false
		}
		parts = append(parts, text(part))
	}
	return strings.Join(parts, "|"), true
}

func text(v any) string {
	if number, ok := v.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// setIdentifier sets the properties of the primary identifier that are missing.
func setIdentifier(t *resourcetype.Type, properties map[string]any, identifier string) {
	parts := strings.SplitN(identifier, "|", len(t.PrimaryIdentifier))
	if len(t.PrimaryIdentifier) == 1 {
		parts = []string{identifier}
	}
	if len(parts) != len(t.PrimaryIdentifier) {
		return
	}
	for i, path := range t.PrimaryIdentifier {
		if value(properties, path) == nil {
			set(properties, path, parts[i])
		}
	}
}

// withoutSystemTags removes the tags of CloudFormation, which AWS's own stacks set too, from tags in any shape.
func withoutSystemTags(properties map[string]any) {
	for name, v := range properties {
		if !strings.Contains(name, "Tags") {
			continue
		}
		switch tags := v.(type) {
		case []any:
			tags = slices.DeleteFunc(tags, func(tag any) bool { return isSystemTag(text(value(tag, []string{"Key"}))) })
			properties[name] = tags
			if len(tags) == 0 {
				properties[name] = nil
			}
		case map[string]any:
			maps.DeleteFunc(tags, func(key string, _ any) bool { return isSystemTag(key) })
			if len(tags) == 0 {
				properties[name] = nil
			}
		}
	}
}

func isSystemTag(key string) bool { return strings.HasPrefix(key, "aws:") }

// operation is a step of a JSON patch.
type operation struct {
	Op, Path, From string
	Value          any
}

// patch applies a JSON patch.
func patch(document map[string]any, raw string) (map[string]any, error) {
	var operations []operation
	if err := json.Unmarshal([]byte(raw), &operations); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	var root any = cloneObject(document)
	for _, o := range operations {
		var err error
		if root, err = o.apply(root); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
		}
	}
	out, ok := root.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the result is not an object")
	}
	return out, nil
}

func (o operation) apply(root any) (any, error) {
	switch o.Op {
	case "add", "replace", "remove", "test":
		return change(root, pointer(o.Path), o.Op, o.Value)
	case "move", "copy":
		v, err := lookup(root, pointer(o.From))
		if err != nil {
			return nil, err
		}
		v = clone(v)
		if o.Op == "move" {
			if root, err = change(root, pointer(o.From), "remove", nil); err != nil {
				return nil, err
			}
		}
		return change(root, pointer(o.Path), "add", v)
	default:
		return nil, fmt.Errorf("the operation is unknown")
	}
}

func pointer(path string) []string {
	if path == "" {
		return nil
	}
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names
}

func lookup(v any, path []string) (any, error) {
	for _, name := range path {
		switch container := v.(type) {
		case map[string]any:
			next, ok := container[name]
			if !ok {
				return nil, fmt.Errorf("%q does not exist", name)
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(container) {
				return nil, fmt.Errorf("the item %q does not exist", name)
			}
			v = container[i]
		default:
			return nil, fmt.Errorf("%q is in a value that is neither an object nor an array", name)
		}
	}
	return v, nil
}

// change changes what is at a path, and returns the new container.
func change(v any, path []string, op string, want any) (any, error) {
	if len(path) == 0 {
		if op == "test" && !reflect.DeepEqual(v, want) {
			return nil, fmt.Errorf("the value is another")
		}
		if op == "test" {
			return v, nil
		}
		return want, nil
	}
	if list, ok := v.([]any); ok && len(path) == 1 && (op == "add" || op == "remove") {
		return changeList(list, path[0], op, want)
	}
	object, isObject := v.(map[string]any)
	if isObject && len(path) == 1 && op == "add" {
		object[path[0]] = want
		return object, nil
	}
	next, err := lookup(v, path[:1])
	if err != nil {
		return nil, err
	}
	if isObject && len(path) == 1 && op == "remove" {
		delete(object, path[0])
		return object, nil
	}
	if next, err = change(next, path[1:], op, want); err != nil {
		return nil, err
	}
	if isObject {
		object[path[0]] = next
		return object, nil
	}
	i, _ := strconv.Atoi(path[0]) // lookup has read it.
	v.([]any)[i] = next
	return v, nil
}

func changeList(list []any, name, op string, want any) (any, error) {
	i, err := strconv.Atoi(name)
	if name == "-" && op == "add" {
		i, err = len(list), nil
	}
	if err != nil || i < 0 || i > len(list) || op == "remove" && i == len(list) {
		return nil, fmt.Errorf("the item %q does not exist", name)
	}
	if op == "remove" {
		return slices.Delete(list, i, i+1), nil
	}
	return slices.Insert(list, i, want), nil
}
