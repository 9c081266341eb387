package awscloud

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// reader reads resources of a type through a native API. Each of its functions is optional, except for read.
type reader struct {
	// read returns the native description of a resource.
	read func(ctx context.Context, from caller, identifier string) (*node, error)
	// list returns the identifiers of all resources.
	list func(ctx context.Context, from caller) ([]string, error)
	// aliases has the native names of properties that are called otherwise, by path.
	aliases map[string]string
	// covers are properties that a resource does not have if its native description does not have them.
	covers []string
	// more adds what the description has in another shape, or what other calls return.
	more func(ctx context.Context, from caller, identifier string, description *node, out map[string]any) error
	// complete sets natively what the implementation's CloudFormation leaves out at a creation or update.
	complete func(ctx context.Context, from caller, identifier string, properties map[string]any) error
	// blocked returns why a resource cannot be deleted, where the implementation's CloudFormation would delete it. The
	// properties are those of the stack.
	blocked func(ctx context.Context, from caller, identifier string, properties map[string]any) error
	// predict returns the identifier that a resource will have, if AWS makes it from its name.
	predict func(from caller, account string, want map[string]any) (string, bool)
	// identify returns the identifier of a resource, where the implementation's is not shaped as AWS's.
	identify func(physical string, properties map[string]any) string
}

// readers are the types that are read natively.
var readers = map[string]reader{}

func init() {
	for _, group := range []map[string]reader{networkReaders, identityReaders, storageReaders,
		computeReaders, messageReaders} {
		maps.Copy(readers, group)
	}
}

// native returns the native state of a resource, in the shape of its properties; nil stands for a
// property that it does not have. It returns nil for types that are not read natively.
func (c *Cloud) native(ctx context.Context, t *resourcetype.Type, in input, identifier string) (map[string]any, error) {
	var out map[string]any
	var err error
	if n, ok := natives[t.Name]; ok {
		out, err = n.read(ctx, t, in.from, identifier)
	} else if readers[t.Name].read != nil {
		out, err = readers[t.Name].properties(ctx, t, in.from, identifier)
	}
	if err != nil || out == nil {
		return nil, err
	}
	withoutSystemTags(out)
	setIdentifier(t, out, identifier)
	return out, nil
}

func (reader reader) properties(ctx context.Context, t *resourcetype.Type, from caller, identifier string) (map[string]any, error) {
	description, err := reader.read(ctx, from, identifier)
	if err != nil {
		return nil, err
	}
	out := properties(t, description, reader.aliases)
	if reader.more != nil {
		if err := reader.more(ctx, from, identifier, description, out); err != nil {
			return nil, err
		}
	}
	for _, name := range reader.covers {
		if _, ok := out[name]; !ok {
			out[name] = nil
		}
	}
	return out, nil
}

func (c *Cloud) nativeList(ctx context.Context, t *resourcetype.Type, in input) (identifiers []string,
	isNative bool, err error) {
	list := readers[t.Name].list
	if list == nil {
		return nil, false, nil
	}
	identifiers, err = list(ctx, in.from)
	return identifiers, true, err
}

// predict returns the identifier that a new resource will have, if that is known before.
func (c *Cloud) predict(t *resourcetype.Type, in input, want map[string]any) (string, bool) {
	if predict := readers[t.Name].predict; predict != nil {
		return predict(in.from, in.account, want)
	}
	return identifier(t, want)
}

func (c *Cloud) identify(t *resourcetype.Type, in input, physical string, want, attributes map[string]any) string {
	all := overlay(want, attributes)
	if identify := readers[t.Name].identify; identify != nil {
		return identify(physical, all)
	}
	if id, ok := c.predict(t, in, all); ok {
		return id
	}
	if n := len(t.PrimaryIdentifier); n > 1 && strings.Count(physical, "|") == n-1 {
		return physical
	}
	// The missing part is what CloudFormation calls the resource.
	for _, path := range t.PrimaryIdentifier {
		if value(all, path) == nil {
			set(all, path, physical)
			break
		}
	}
	if id, ok := identifier(t, all); ok {
		return id
	}
	return physical
}

// missing is how a description says that there is no such resource.
func missing(what string) error {
	return &nativeError{code: "NotFound", message: what + " does not exist"}
}

// tagList returns tags as CloudFormation writes them in most types, sorted by key as some APIs return
// them in any order.
func tagList(tags map[string]string) []any {
	out := []any{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, map[string]any{"Key": key, "Value": tags[key]})
	}
	return out
}

// setTags sets the property Tags from native tags, a list of keys and values or an object.
func setTags(out map[string]any, tags *node) {
	if list := tagsOf(tags, "array"); list != nil {
		out["Tags"] = list
	}
}

// texts returns a text of each item of a list.
func texts(list *node, path ...string) []string {
	var out []string
	for _, item := range list.items {
		if v := item.get(path...).text; v != "" {
			out = append(out, v)
		}
	}
	return out
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// setList sets a property to a list of strings, if there are any.
func setList(out map[string]any, name string, list []string) {
	if len(list) > 0 {
		out[name] = anys(list)
	}
}

func lastPart(s, separator string) string { return s[strings.LastIndex(s, separator)+1:] }
