package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Keys of our own tags. TagSent is about write-only values: see Sent.
const (
	TagBinding = "espalier.dev/binding"
	TagOwner   = "espalier.dev/owner"
	TagSent    = "espalier.dev/sent"
)

// ownTags and awsTags are the prefixes of tags that are not the user's.
const (
	ownTags = "espalier.dev/"
	awsTags = "aws:"
)

// Tags is how the resources of a type carry tags.
type Tags struct {
	// Property is the property with the tags; empty for a type without tags on its resources.
	Property string
	// IsMap reports whether tags are a map; otherwise they are an array of objects with Key and Value.
	IsMap bool
	// AtCreation and Updatable report when tags can be set.
	AtCreation, Updatable bool
}

// TagsOf returns how the resources of a type carry tags.
func TagsOf(t *resourcetype.Type) Tags {
	path := t.Tagging.TagProperty
	if !t.Tagging.Taggable || len(path) > 1 {
		return Tags{}
	}
	name := "Tags"
	if len(path) == 1 {
		name = path[0]
	}
	s := t.Resolve(t.Properties[name])
	if s == nil || resourcetype.Has(t.ReadOnlyProperties, resourcetype.Path{name}) {
		return Tags{}
	}
	out := Tags{
		Property: name, AtCreation: t.Tagging.TagOnCreate,
		Updatable: t.Tagging.TagUpdatable && !resourcetype.Has(t.CreateOnlyProperties, resourcetype.Path{name}),
	}
	if items := arrayOf(t, s, maxBranches).Items; items != nil {
		if known := fields(t, items); known["Key"] != nil && known["Value"] != nil {
			return out
		}
		return Tags{}
	}
	if out.IsMap = hasType(s, "object"); !out.IsMap {
		return Tags{}
	}
	return out
}

// Read returns the tags of a resource by their key.
func (g Tags) Read(properties map[string]any) map[string]string {
	out := map[string]string{}
	switch v := properties[g.Property].(type) {
	case map[string]any:
		for key, value := range v {
			out[key], _ = text(value)
		}
	case []any:
		for _, item := range v {
			tag, _ := item.(map[string]any)
			if key, ok := tag["Key"].(string); ok {
				out[key], _ = text(tag["Value"])
			}
		}
	}
	return out
}

// Add returns the value of the property with more tags, after those that it has; a tag that it has is
// replaced.
func (g Tags) Add(value any, more map[string]string) any {
	if g.IsMap {
		out := map[string]any{}
		if has, ok := value.(map[string]any); ok {
			out = maps.Clone(has)
		}
		for key, tag := range more {
			out[key] = tag
		}
		return out
	}
	has, _ := value.([]any)
	out := slices.DeleteFunc(slices.Clone(has), func(item any) bool {
		tag, _ := item.(map[string]any)
		key, _ := tag["Key"].(string)
		_, replaced := more[key]
		return replaced
	})
	for _, key := range slices.Sorted(maps.Keys(more)) {
		out = append(out, map[string]any{"Key": key, "Value": more[key]})
	}
	return out
}

func own(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if strings.HasPrefix(key, ownTags) {
			out[key] = value
		}
	}
	return out
}

// A compared tag is neither ours nor one that AWS sets.
func isUsers(key string) bool {
	return !strings.HasPrefix(key, ownTags) && !strings.HasPrefix(strings.ToLower(key), awsTags)
}

// ReservedTag returns the path of a tag, at any depth of properties, that has a key of ours; empty without one. Our
// tags name the owner of a resource, also tags that a resource gives to other resources, such as the instances of a
// launch template. Filters, which select by tags, may have any.
func ReservedTag(properties map[string]any) string {
	return reservedTag(properties, nil, false)
}

func reservedTag(value any, path []any, areTags bool) string {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			tag, _ := v[key].(string)
			below := append(slices.Clone(path), key)
			if areTags && (strings.HasPrefix(key, ownTags) || strings.HasSuffix(strings.ToLower(key), "key") && strings.HasPrefix(tag, ownTags)) {
				return Difference{Path: below}.Name()
			}
			_, isArray := v[key].([]any)
			_, isMap := v[key].(map[string]any)
			if found := reservedTag(v[key], below, (isArray || isMap) && isTagName(key)); found != "" {
				return found
			}
		}
	case []any:
		for i, item := range v {
			if found := reservedTag(item, append(slices.Clone(path), i), areTags); found != "" {
				return found
			}
		}
	}
	return ""
}

// isTagName reports whether a property of this name has tags that are set.
func isTagName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "tag") && !strings.Contains(name, "filter") && !strings.Contains(name, "target")
}

// A tag of the user that is not in the desired state is removed.
func (c *comparer) compareTags(wanted, got any, exists bool, p place) {
	users := func(value any) map[string]string {
		all := c.tags.Read(map[string]any{c.tags.Property: value})
		maps.DeleteFunc(all, func(key, _ string) bool { return !isUsers(key) })
		return all
	}
	if maps.Equal(users(wanted), users(got)) {
		return
	}
	d := Difference{Path: p.path, Wanted: wanted, Got: got, Exists: exists, CreateOnly: c.frozen || p.create.isIn() || !c.tags.Updatable}
	c.found = append(c.found, d)
}

// Sent returns the WriteOnlyDigest of a type if its tags can be updated; otherwise it is empty. Reads do not return
// such values. So the digest is a tag, which the same request sets: if the tag differs, they have to be sent again. A
// tag is with the resource, also where the Binding was lost or is another cluster's.
func Sent(t *resourcetype.Type, wanted map[string]any) string {
	if tags := TagsOf(t); tags.Property == "" || !tags.Updatable {
		return ""
	}
	return WriteOnlyDigest(t, wanted)
}

// WriteOnlyDigest returns a digest of the write-only values in a desired state that can be changed; empty without any.
// Of a secret, only its reference and resource version are in the digest.
func WriteOnlyDigest(t *resourcetype.Type, wanted map[string]any) string {
	if _, updates := t.Handlers[resourcetype.Update]; !updates {
		return ""
	}
	all := writeOnlyValues(t, wanted)
	if len(all) == 0 {
		return ""
	}
	h := sha256.New()
	for _, v := range all {
		h.Write(encode([]any{Difference{Path: v.path}.Name(), v.value}))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

type located struct {
	path  []any
	value any
}

// writeOnlyValues returns the write-only and ignored values and the secrets of a desired state that can be changed after the
// creation, sorted by their path.
func writeOnlyValues(t *resourcetype.Type, wanted map[string]any) []located {
	var out []located
	var walk func(value any, p place)
	walk = func(value any, p place) {
		if p.create.isIn() {
			return
		}
		if len(p.path) > 0 && p.write.isIn() || isSecretRef(value) {
			out = append(out, located{p.path, value})
			return
		}
		switch v := value.(type) {
		case map[string]any:
			for key, item := range v {
				walk(item, p.field(key))
			}
		case []any:
			for i, item := range v {
				walk(item, p.item(i))
			}
		}
	}
	walk(wanted, place{write: newPaths(t.WriteOnlyProperties, t.IgnoredProperties), create: newPaths(t.CreateOnlyProperties)})
	slices.SortFunc(out, func(a, b located) int {
		return cmp.Compare(Difference{Path: a.path}.Name(), Difference{Path: b.path}.Name())
	})
	return out
}
