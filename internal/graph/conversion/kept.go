package conversion

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/object"
)

// MaxKept bounds the values that are kept of an object for one version, in bytes: all annotations of an object
// together may take 256 KiB.
const MaxKept = 48 << 10

// keptValue is a value without a field in the other version. It is restored if conversion
// still gives the same value at its path as when it was kept. Otherwise a user has changed
// the field in the other version, and the kept value is dropped.
type keptValue struct {
	// At is the path of the value: field names, list indices, and the keys of items if a
	// list has keys.
	At []any `json:"at"`
	// Value is the kept value; nil if the field was unset though conversion sets it.
	Value any `json:"was,omitempty"`
	// Digest is the digest of the value that conversion gave at the path; empty if it gave none.
	Digest string `json:"over,omitempty"`
}

// keptAnnotation returns the values of an object's spec that a round trip does not restore,
// as the text of an annotation; empty if it restores all.
func (k keepRules) keptAnnotation(was, given map[string]any, s *props) (string, error) {
	var out []keptValue
	k.compare(was, given, s, nil, &out)
	if len(out) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "", err
	}
	if len(raw) > MaxKept {
		return "", &failure{field: specPath, reason: fmt.Sprintf("the values without a field in the other version have %d bytes; at most %d can be kept (MaxKept)", len(raw), MaxKept)}
	}
	return string(raw), nil
}

func (k keepRules) compare(a, b any, s *props, at []any, out *[]keptValue) {
	if was, ok := a.(map[string]any); ok {
		if is, ok := b.(map[string]any); ok {
			names := maps.Clone(was)
			maps.Copy(names, is)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				k.compareIn(was, is, name, field(s, name), at, out)
			}
			return
		}
	}
	if was, is, ok := sameLengthLists(a, b); ok {
		keyed := sameKeys(was, is, s)
		for i := range was {
			if keys, _ := keysOf(was[i], s); keyed {
				k.compare(was[i], is[i], itemsOf(s), append(slices.Clone(at), keys), out)
			} else if !equal(was[i], is[i]) {
				k.add(append(slices.Clone(at), int64(i)), was[i], digest(is[i]), out)
			}
		}
		return
	}
	if !equal(a, b) {
		k.add(at, a, digest(b), out)
	}
}

func (k keepRules) compareIn(was, is map[string]any, name string, s *props, at []any, out *[]keptValue) {
	a, had := was[name]
	b, has := is[name]
	at = append(slices.Clone(at), name)
	switch {
	case had && has:
		k.compare(a, b, s, at, out)
	case had:
		k.add(at, a, "", out)
	case has:
		k.add(at, nil, digest(b), out)
	}
}

func (k keepRules) add(at []any, value any, over string, out *[]keptValue) {
	names := fieldNames(at)
	for i := range names[:max(len(names)-1, 0)] {
		if mayBeSecret(names[i]) && !coveredBy(k.keep, names) {
			return
		}
	}
	if value, ok := k.keepable(names, value); ok {
		*out = append(*out, keptValue{At: at, Value: value, Digest: over})
	}
}

// restore puts back a kept value if conversion gives the same value for its field as when
// it was kept.
func (k keepRules) restore(spec map[string]any, text string) {
	var all []keptValue
	if text == "" || len(text) > 2*MaxKept || utiljson.Unmarshal([]byte(text), &all) != nil {
		return // not written by this program
	}
	// All fields are located before any of them changes.
	var puts []func()
	lists := itemIndex{}
	for _, one := range all {
		if put := lists.locate(spec, one); put != nil {
			puts = append(puts, put)
		}
	}
	for _, put := range puts {
		put()
	}
}

// itemIndex contains the items of lists, by the path of the list and the name of the item, so long lists are searched
// once.
type itemIndex map[string]map[string][]int

func (x itemIndex) itemsByName(trail string, items []any, name func(any) (string, bool)) map[string][]int {
	if found, ok := x[trail]; ok {
		return found
	}
	found := map[string][]int{}
	for i, item := range items {
		if name, ok := name(item); ok {
			found[name] = append(found[name], i)
		}
	}
	x[trail] = found
	return found
}

// locate returns nil if the value is outdated.
func (x itemIndex) locate(in any, one keptValue) func() {
	trail := ""
	for i, step := range one.At {
		last := i == len(one.At)-1
		switch step := step.(type) {
		case string:
			fields, ok := in.(map[string]any)
			if !ok {
				return nil
			}
			if last {
				return locateField(fields, step, one)
			}
			in, trail = fields[step], trail+"."+strconv.Quote(step)
		case map[string]any:
			items, _ := in.([]any)
			names := slices.Sorted(maps.Keys(step))
			found := x.itemsByName(trail+strconv.Quote(strings.Join(names, ",")), items, func(item any) (string, bool) {
				keys, ok := selectFields(item, names)
				return digest(keys), ok
			})[digest(step)]
			if last || len(found) == 0 {
				return nil
			}
			in, trail = items[found[0]], trail+"["+digest(step)+"]"
		default:
			items, _ := in.([]any)
			if !last {
				return nil
			}
			return x.locateItem(items, step, one, trail)
		}
	}
	return nil
}

func locateField(fields map[string]any, name string, one keptValue) func() {
	value, has := fields[name]
	if has != (one.Digest != "") || has && digest(value) != one.Digest {
		return nil
	}
	return func() {
		if one.Value == nil {
			delete(fields, name)
		} else {
			fields[name] = one.Value
		}
	}
}

// locateItem finds the item of a list that still has the value that conversion gave when
// the item was kept: at its former index, or otherwise at any index. It finds each item
// once.
func (x itemIndex) locateItem(items []any, step any, one keptValue, trail string) func() {
	was, ok := step.(int64)
	if !ok {
		return nil
	}
	all := x.itemsByName(trail+"[]", items, func(item any) (string, bool) { return digest(item), true })
	found := all[one.Digest]
	if len(found) == 0 {
		return nil
	}
	at := max(slices.Index(found, int(was)), 0)
	i := found[at]
	all[one.Digest] = slices.Delete(found, at, at+1)
	return func() { items[i] = one.Value }
}

func sameLengthLists(a, b any) (was, is []any, ok bool) {
	was, isList := a.([]any)
	is, isListToo := b.([]any)
	return was, is, isList && isListToo && len(was) == len(is)
}

// keysOf returns the x-kubernetes-list-map-keys of an item; false if the list has none.
func keysOf(item any, s *props) (map[string]any, bool) {
	if s == nil || s.XListType == nil || *s.XListType != "map" || len(s.XListMapKeys) == 0 {
		return nil, false
	}
	return selectFields(item, s.XListMapKeys)
}

// selectFields returns false if the object lacks a field.
func selectFields(item any, names []string) (map[string]any, bool) {
	fields, ok := item.(map[string]any)
	out := map[string]any{}
	for _, name := range names {
		value, has := fields[name]
		ok, out[name] = ok && has, value
	}
	return out, ok
}

func sameKeys(a, b []any, s *props) bool {
	for i := range a {
		x, ok := keysOf(a[i], s)
		y, okToo := keysOf(b[i], s)
		if !ok || !okToo || !equal(x, y) {
			return false
		}
	}
	return true
}

func equal(a, b any) bool { return digest(a) == digest(b) }

// digest is a short hash of a value, which shows that it has changed.
func digest(v any) string { return object.Digest(v)[:16] }
