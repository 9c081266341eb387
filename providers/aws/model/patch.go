package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Operation is an operation of a JSON patch, RFC 6902.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch returns the operations that correct the differences of a comparison, with what was compared. They touch single
// properties, and never those that can only be set at creation. AWS reads, patches and updates, so a write-only value
// that is not in the patch is lost: all of them are in it, unless the patch would otherwise be empty and the tag shows
// that they were sent before. A property that is not wanted is left as it is.
func Patch(t *resourcetype.Type, c Comparison, wanted, read map[string]any) []Operation {
	p := patcher{t: t, wanted: wanted, read: read, tags: TagsOf(t), done: map[string]bool{}}
	for _, d := range c.Differences {
		if !d.CreateOnly && !p.isTags(d.Path) {
			p.set(d.Path)
		}
	}
	tagsDiffer := slices.ContainsFunc(c.Differences, func(d Difference) bool { return !d.CreateOnly && p.isTags(d.Path) })
	sent := Sent(t, wanted)
	isSent := sent == "" || p.tags.Read(read)[TagSent] == sent
	if len(p.out) == 0 && !tagsDiffer && isSent {
		return nil
	}
	p.setWriteOnly()
	if tagsDiffer || !isSent {
		p.setTags(tagsDiffer, sent)
	}
	return p.out
}

// WriteOnlyPatch returns the operations that set all write-only values which can be changed.
func WriteOnlyPatch(t *resourcetype.Type, wanted, read map[string]any) []Operation {
	p := patcher{t: t, wanted: wanted, read: read, tags: TagsOf(t), done: map[string]bool{}}
	p.setWriteOnly()
	return p.out
}

// Immutable returns the differences that no update can correct.
func (c Comparison) Immutable() Comparison {
	return Comparison{Differences: slices.DeleteFunc(slices.Clone(c.Differences), func(d Difference) bool { return !d.CreateOnly })}
}

type patcher struct {
	t            *resourcetype.Type
	wanted, read map[string]any
	tags         Tags
	// done are the paths that are set, with everything below them.
	done map[string]bool
	out  []Operation
}

func (p *patcher) setWriteOnly() {
	for _, value := range writeOnlyValues(p.t, p.wanted) {
		p.set(value.path)
	}
}

func (p *patcher) isTags(path []any) bool {
	return p.tags.Property != "" && len(path) == 1 && path[0] == p.tags.Property
}

// What is missing above the value is set, too. An item of an array that the resource does not have in the same place is
// set with the whole array.
func (p *patcher) set(path []any) {
	for n := 1; n <= len(path); n++ {
		above := path[:n]
		if p.done[Pointer(above)] {
			return
		}
		_, exists := at(p.read, above)
		isLast := n == len(path)
		if !isLast && exists && !p.leavesArray(path, n) {
			continue
		}
		value, _ := at(p.wanted, above)
		p.add(above, p.withCreateOnly(above, value), exists)
		return
	}
}

// The array ends at n. Its items are in another order or number than the wanted ones.
func (p *patcher) leavesArray(path []any, n int) bool {
	if _, isIndex := path[n].(int); !isIndex {
		return false
	}
	wanted, _ := at(p.wanted, path[:n])
	read, _ := at(p.read, path[:n])
	w, isArray := wanted.([]any)
	r, areArrays := read.([]any)
	if !isArray || !areArrays || len(w) != len(r) {
		return true
	}
	var name resourcetype.Path
	for _, step := range path[:n] {
		if s, ok := step.(string); ok {
			name = append(name, s)
		} else {
			name = append(name, "*")
		}
	}
	s := arrayOf(p.t, fieldAt(p.t, name), maxBranches)
	return s.InsertionOrder != nil && !*s.InsertionOrder
}

// withCreateOnly returns a value that replaces an existing one, with the values below it that can only be set at
// creation and that AWS has chosen: without them, AWS takes the replacement for a change of them.
func (p *patcher) withCreateOnly(path []any, value any) any {
	fixed := newPaths(p.t.CreateOnlyProperties)
	for _, step := range path {
		if name, ok := step.(string); ok {
			fixed = fixed.field(name)
		} else {
			fixed = fixed.item()
		}
	}
	read, _ := at(p.read, path)
	return keep(fixed, value, read)
}

// keep returns a value with the create-only values of another one instead of its own. Items of arrays keep their
// own values too: they may be new, or in another order.
func keep(fixed *paths, value, read any) any {
	if fixed.isEmpty() {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		r := asObject(read)
		out := make(map[string]any, len(v))
		for key, own := range v {
			if below := fixed.field(key); !below.isIn() {
				out[key] = keep(below, own, r[key])
			}
		}
		for key, has := range r {
			if _, isSet := out[key]; !isSet {
				if part := fixedPart(fixed.field(key), has); part != nil {
					out[key] = part
				}
			}
		}
		return out
	case []any:
		r, ok := read.([]any)
		if !ok || len(r) != len(v) {
			return value
		}
		out := make([]any, len(v))
		for i := range v {
			object, isObject := v[i].(map[string]any)
			part, hasPart := fixedPart(fixed.item(), r[i]).(map[string]any)
			if out[i] = v[i]; isObject && hasPart {
				out[i] = overlay(part, object)
			}
		}
		return out
	}
	return value
}

// It is nil if there is none.
func fixedPart(fixed *paths, value any) any {
	object, isObject := value.(map[string]any)
	switch {
	case fixed.isIn():
		return value
	case fixed.isEmpty() || !isObject:
		return nil
	}
	out := map[string]any{}
	for key, item := range object {
		if part := fixedPart(fixed.field(key), item); part != nil {
			out[key] = part
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// All tags are replaced by the wanted ones and ours, or, if only ours change, by the present ones.
func (p *patcher) setTags(wanted bool, sent string) {
	if !p.tags.Updatable {
		return
	}
	present, exists := p.read[p.tags.Property]
	ours := own(p.tags.Read(p.read))
	if sent != "" {
		ours[TagSent] = sent
	}
	value := present
	if users, isSet := p.wanted[p.tags.Property]; wanted || isSet {
		value = users
	}
	p.add([]any{p.tags.Property}, p.tags.Add(onlyUsers(p.tags, value), ours), exists)
}

// onlyUsers returns tags without ours, which are taken from the resource alone, and without tags that AWS sets, which a
// request must not have.
func onlyUsers(g Tags, value any) any {
	if g.IsMap {
		out := maps.Clone(asObject(value))
		maps.DeleteFunc(out, func(key string, _ any) bool { return !isUsers(key) })
		return out
	}
	has, _ := value.([]any)
	return slices.DeleteFunc(slices.Clone(has), func(item any) bool {
		key, _ := asObject(item)["Key"].(string)
		return !isUsers(key)
	})
}

func asObject(value any) map[string]any {
	object, ok := value.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return object
}

func (p *patcher) add(path []any, value any, exists bool) {
	op := "add"
	if exists {
		op = "replace"
	}
	pointer := Pointer(path)
	p.done[pointer] = true
	p.out = append(p.out, Operation{op, pointer, value})
}

// Pointer returns a path as a JSON pointer, RFC 6901.
func Pointer(path []any) string {
	var b strings.Builder
	for _, step := range path {
		fmt.Fprintf(&b, "/%s", strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step)))
	}
	return b.String()
}
