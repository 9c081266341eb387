package conversion

// fieldSet is the set of fields that a template assigns, as a tree. A field without fields
// below it is assigned as a whole.
type fieldSet map[string]fieldSet

// assignedFields returns the fields that a template assigns. An object is assigned field by
// field if the schema has fields or a map there.
func assignedFields(doc map[string]any, s *props) fieldSet {
	out := fieldSet{}
	for name, value := range doc {
		fields, isMap := value.(map[string]any)
		below := field(s, name)
		if !isMap || len(fields) == 0 || below == nil || kindOf(below) == anything {
			out[name] = nil
			continue
		}
		out[name] = assignedFields(fields, below)
	}
	return out
}

func (m fieldSet) hasWhole(name string) bool {
	below, ok := m[name]
	return ok && below == nil
}
