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

// MostKept bounds what is kept of an object for one version, in bytes: all annotations
// of an object may have 256 KiB.
const MostKept = 48 << 10

// kept is a value that the other version has no room for. It holds as long as conversion
// gives at its place what it gave when it was kept: when that has changed since, somebody
// has said otherwise in the other version, and the value is dropped.
type kept struct {
	// At leads to the value: names of fields, places in lists, and the keys of items where
	// a list has them.
	At []any `json:"at"`
	// Was is the value; nil if there was none though conversion gives one.
	Was any `json:"was,omitempty"`
	// Over is the digest of what conversion gave there; empty if it gave nothing.
	Over string `json:"over,omitempty"`
}

// keep returns what of an object's spec conversion there and back doesn't give, as the
// text of an annotation; empty if it gives all of it.
func (k keeper) keep(was, given map[string]any, s *props) (string, error) {
	var out []kept
	k.compare(was, given, s, nil, &out)
	if len(out) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "", err
	}
	if len(raw) > MostKept {
		return "", &failure{field: specPath, reason: fmt.Sprintf("what the other version has no room for takes %d bytes; at most %d are kept (MostKept)", len(raw), MostKept)}
	}
	return string(raw), nil
}

// compare lists what a has otherwise than b.
func (k keeper) compare(a, b any, s *props, at []any, out *[]kept) {
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
	if was, is, ok := alike(a, b); ok {
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

func (k keeper) compareIn(was, is map[string]any, name string, s *props, at []any, out *[]kept) {
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

func (k keeper) add(at []any, value any, over string, out *[]kept) {
	names := namesOf(at)
	for i := range names[:max(len(names)-1, 0)] {
		if maySecret(names[i]) && !covered(k.named, names) {
			return
		}
	}
	if value, ok := k.part(names, value); ok {
		*out = append(*out, kept{At: at, Was: value, Over: over})
	}
}

// restore puts back what was kept, where conversion gives what it gave then.
func (k keeper) restore(spec map[string]any, text string) {
	var all []kept
	if text == "" || len(text) > 2*MostKept || utiljson.Unmarshal([]byte(text), &all) != nil {
		return // somebody else's writing
	}
	// All places are found before anything is put there.
	var puts []func()
	lists := index{}
	for _, one := range all {
		if put := lists.place(spec, one); put != nil {
			puts = append(puts, put)
		}
	}
	for _, put := range puts {
		put()
	}
}

// index knows the items of lists, by the list's trail and by what is asked for, so that
// long lists are gone through once.
type index map[string]map[string][]int

// of lists where items are of which name is asked for.
func (x index) of(trail string, items []any, name func(any) (string, bool)) map[string][]int {
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

// place finds where a kept value belongs; nil if it doesn't hold any more.
func (x index) place(in any, one kept) func() {
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
				return into(fields, step, one)
			}
			in, trail = fields[step], trail+"."+strconv.Quote(step)
		case map[string]any:
			items, _ := in.([]any)
			names := slices.Sorted(maps.Keys(step))
			found := x.of(trail+strconv.Quote(strings.Join(names, ",")), items, func(item any) (string, bool) {
				keys, ok := picked(item, names)
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
			return x.among(items, step, one, trail)
		}
	}
	return nil
}

func into(fields map[string]any, name string, one kept) func() {
	value, has := fields[name]
	if has != (one.Over != "") || has && digest(value) != one.Over {
		return nil
	}
	return func() {
		if one.Was == nil {
			delete(fields, name)
		} else {
			fields[name] = one.Was
		}
	}
}

// among finds the item of a list that conversion gives as it gave it then: first where it
// was, and otherwise wherever it is now. Each item is found once.
func (x index) among(items []any, step any, one kept, trail string) func() {
	was, ok := step.(int64)
	if !ok {
		return nil
	}
	all := x.of(trail+"[]", items, func(item any) (string, bool) { return digest(item), true })
	found := all[one.Over]
	if len(found) == 0 {
		return nil
	}
	at := max(slices.Index(found, int(was)), 0)
	i := found[at]
	all[one.Over] = slices.Delete(found, at, at+1)
	return func() { items[i] = one.Was }
}

// alike says whether both are lists of as many items.
func alike(a, b any) (was, is []any, ok bool) {
	was, isList := a.([]any)
	is, isListToo := b.([]any)
	return was, is, isList && isListToo && len(was) == len(is)
}

// keysOf are the fields by which an item of a list is known.
func keysOf(item any, s *props) (map[string]any, bool) {
	if s == nil || s.XListType == nil || *s.XListType != "map" || len(s.XListMapKeys) == 0 {
		return nil, false
	}
	return picked(item, s.XListMapKeys)
}

// picked are some fields of an object, if it has them.
func picked(item any, names []string) (map[string]any, bool) {
	fields, ok := item.(map[string]any)
	out := map[string]any{}
	for _, name := range names {
		value, has := fields[name]
		ok, out[name] = ok && has, value
	}
	return out, ok
}

// sameKeys says whether two lists have items of the same keys, in the same order.
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

// digest is a short name of a value: enough to tell that it has changed.
func digest(v any) string { return object.Digest(v)[:16] }
