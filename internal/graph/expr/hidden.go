package expr

import "maps"

// Hidden reports whether expressions that read all labels or all annotations of an object do not see an entry.
// An expression that names the key reads it.
type Hidden func(key string, value any) bool

// objectPart says which part of an object of the cluster a value is. The zero value is any value without hidden entries.
type objectPart struct {
	level  level
	hidden Hidden
}

type level uint8

const (
	notHiding level = iota
	objectList
	wholeObject
	objectMetadata
	metadataEntries // labels or annotations
)

func partOf(d Declaration) objectPart {
	switch {
	case d.Hidden == nil:
		return objectPart{}
	case d.List:
		return objectPart{objectList, d.Hidden}
	default:
		return objectPart{wholeObject, d.Hidden}
	}
}

func (p objectPart) field(name string) objectPart {
	switch {
	case p.level == wholeObject && name == "metadata":
		return objectPart{objectMetadata, p.hidden}
	case p.level == objectMetadata && (name == "labels" || name == "annotations"):
		return objectPart{metadataEntries, p.hidden}
	}
	return objectPart{}
}

func (p objectPart) item() objectPart {
	if p.level == objectList {
		return objectPart{wholeObject, p.hidden}
	}
	return objectPart{}
}

func (p objectPart) at(s Step) objectPart {
	if s.Name == "" {
		return p.item()
	}
	return p.field(s.Name)
}

// shownItems returns a list without its hidden entries. It copies what it changes.
func (p objectPart) shownItems(items []any) []any {
	if p.level != objectList {
		return items
	}
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = p.item().shown(item)
	}
	return out
}

// shownFields returns an object or a map without its hidden entries. It copies what it changes.
func (p objectPart) shownFields(m map[string]any) map[string]any {
	if p.level < wholeObject {
		return m
	}
	out := maps.Clone(m)
	if p.level == metadataEntries {
		maps.DeleteFunc(out, p.hidden)
		return out
	}
	for name, value := range m {
		if below := p.field(name); below.level != notHiding {
			out[name] = below.shown(value)
		}
	}
	return out
}

func (p objectPart) shown(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return p.shownFields(v)
	case []any:
		return p.shownItems(v)
	}
	return v
}
