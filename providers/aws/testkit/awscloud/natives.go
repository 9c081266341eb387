package awscloud

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// NativeCall is a call of a native API, as tables write it.
type NativeCall struct {
	// Call is the service that the call is signed for, and what it does: an action of the query protocol ("iam GetUser"), a
	// target of the JSON protocol ("ssm AmazonSSM.GetParameter"), or a method and a path of the REST protocols
	// ("appconfig GET /applications/${id}").
	Call string
	// Input are the parameters of an action, or the JSON body of another call. Those of an action are as in a form,
	// such as Tag.1.Key.
	Input map[string]any
	// Body is the body of a call that is not JSON.
	Body string
}

// nativeType is how resources of a type are read through native APIs.
type nativeType struct {
	// Read are the calls that describe a resource. If the first one finds nothing, there is no such resource.
	Read []nativeRead
	// Covers are properties that a resource does not have if its descriptions do not have them. Tags are covered.
	Covers []string
}

// nativeRead is a call that describes a resource, or a part of it.
type nativeRead struct {
	NativeCall `json:",inline"`
	// At is the path of the description in the answer. If it is a list, Where are the texts of fields of the item. Gone are
	// texts of fields of a description that stays after the deletion.
	At          string
	Where, Gone map[string]string
	// Whole has the description's fields be the resource's properties, where the names are alike. Set has the paths in the
	// description of the properties that are called otherwise. An item of a list is named by its number, all by *.
	Whole bool
	Set   map[string]string
}

//go:embed natives.yaml
var nativesFile []byte

// natives are the types that natives.yaml reads natively.
var natives = func() map[string]nativeType {
	var out map[string]nativeType
	if err := yaml.UnmarshalStrict(nativesFile, &out); err != nil {
		panic("natives.yaml: " + err.Error()) // A test reads it.
	}
	return out
}()

// about resolves ${id}, which is the identifier of a resource, its parts ${1} and ${2}, and ${last}, which is what follows its
// last slash or colon. Other references are resolved by the function, which is optional.
func about(identifier string, others func(name, property string) string) func(name, property string) string {
	return func(name, property string) string {
		parts := strings.Split(identifier, "|")
		n, err := strconv.Atoi(name)
		switch {
		case name == "id":
			return identifier
		case name == "last":
			return identifier[strings.LastIndexAny(identifier, "/:")+1:]
		case err == nil && n >= 1 && n <= len(parts):
			return parts[n-1]
		case others != nil:
			return others(name, property)
		default:
			return ""
		}
	}
}

// do makes a call of a table, and returns the answer.
func (c caller) do(ctx context.Context, call NativeCall, resolve func(name, property string) string) (*node, error) {
	service, action, _ := strings.Cut(call.Call, " ")
	method, path, isREST := strings.Cut(action, " ")
	input := Resolve(call.Input, resolve)
	switch {
	case isREST:
		path = resolved(path, func(name, property string) string { return url.PathEscape(resolve(name, property)) }).(string)
		contentType, body := "", []byte(resolved(call.Body, resolve).(string))
		if call.Input != nil {
			contentType = "application/json"
			var err error
			if body, err = json.Marshal(input); err != nil {
				return nil, err
			}
		}
		return c.send(ctx, service, method, path, contentType, "", body)
	case strings.Contains(action, "."):
		return c.call(ctx, service, action, input)
	default:
		parameters := map[string]string{}
		for name, v := range input {
			parameters[name] = text(v)
		}
		return c.query(ctx, service, action, parameters)
	}
}

// at returns the node at a path of names that are joined with dots.
func (n *node) at(path string) *node {
	if path == "" {
		return n
	}
	name, rest, _ := strings.Cut(path, ".")
	if i, err := strconv.Atoi(name); err == nil {
		if i >= len(n.items) {
			return &node{}
		}
		return n.items[i].at(rest)
	}
	if name == "*" {
		out := &node{}
		for _, item := range n.items {
			out.items = append(out.items, item.at(rest))
		}
		return out
	}
	return n.get(name).at(rest)
}

// has reports whether fields of a description have texts.
func (n *node) has(wanted map[string]string, resolve func(name, property string) string) bool {
	for path, want := range wanted {
		if n.at(path).text != resolved(want, resolve).(string) {
			return false
		}
	}
	return true
}

// find returns the description in an answer, nil if it is not there.
func (r nativeRead) find(answer *node, resolve func(name, property string) string) *node {
	found := answer.at(r.At)
	if r.Where != nil {
		i := slices.IndexFunc(found.items, func(item *node) bool { return item.has(r.Where, resolve) })
		if i < 0 {
			return nil
		}
		found = found.items[i]
	}
	switch {
	case found.empty() || r.Gone != nil && found.has(r.Gone, resolve):
		return nil
	case found.fields["entry"] != nil:
		return entries(found)
	default:
		return found
	}
}

// read returns the properties of a resource by native APIs.
func (n nativeType) read(ctx context.Context, t *resourcetype.Type, from caller, identifier string) (map[string]any, error) {
	out := map[string]any{}
	resolve := about(identifier, nil)
	for i, step := range n.Read {
		answer, err := from.do(ctx, step.NativeCall, resolve)
		if i > 0 && isNotFound(err) {
			continue // Tags and policies may be absent.
		}
		if err != nil {
			return nil, err
		}
		description := step.find(answer, resolve)
		switch {
		case description == nil && i == 0:
			return nil, missing(identifier)
		case description == nil:
			continue
		case i == 0:
			resolve = about(identifier, func(_, property string) string { return description.get(property).text })
		}
		step.set(t, description, out)
	}
	covers := n.Covers
	if len(t.Tagging.TagProperty) == 1 {
		covers = append(slices.Clone(covers), t.Tagging.TagProperty[0])
	}
	for _, name := range covers {
		if _, ok := out[name]; !ok {
			out[name] = nil
		}
	}
	// Some descriptions have an identifier in another form.
	for _, path := range t.PrimaryIdentifier {
		remove(out, path)
	}
	return out, nil
}

// set sets the properties that a description has.
func (r nativeRead) set(t *resourcetype.Type, description *node, out map[string]any) {
	if r.Whole {
		maps.Copy(out, properties(t, description, nil))
	}
	for property, path := range r.Set {
		field := description.at(path)
		s := t.Schema.Properties[property]
		var v any
		switch {
		case s == nil || field.empty():
		case slices.Equal(t.Tagging.TagProperty, resourcetype.Path{property}):
			v = tagsOf(field, kindOf(t.Resolve(s)))
		default:
			v = convert(t, s, field, property, nil)
		}
		if v != nil {
			out[property] = v
		}
	}
}

// tagsOf returns native tags, a list of keys and values or an object, in the shape that a schema has for them.
func tagsOf(n *node, kind string) any {
	tags := map[string]string{}
	for _, tag := range n.items {
		key := tag.get("Key").text + tag.get("key").text + tag.get("TagKey").text
		tags[key] = tag.get("Value").text + tag.get("value").text + tag.get("TagValue").text
	}
	if len(n.items) == 0 {
		for key, v := range n.fields {
			tags[key] = v.text
		}
	}
	switch {
	case len(tags) == 0:
		return nil
	case kind == "array":
		return tagList(tags)
	}
	out := map[string]any{}
	for key, v := range tags {
		out[key] = v
	}
	return out
}

// Call calls a native API, in the default account and region: for what others do with resources. ${id} in it is the
// identifier of a resource, ${last} what follows the last slash or colon of that; other references are resolved by the function, which
// is optional. Call returns the text at a path of the answer. It neither counts as a call nor is subject to faults.
func (c *Cloud) Call(ctx context.Context, call NativeCall, identifier string, resolve func(name, property string) string, path string) (string, error) {
	answer, err := c.here("").from.do(ctx, call, about(identifier, resolve))
	if err != nil {
		return "", fmt.Errorf("call %s: %w", call.Call, err)
	}
	return answer.at(path).text, nil
}
