package conversion

// mention says which fields a document gives: those below an object one by one. A field
// without any below it is given as a whole.
type mention map[string]mention

// mentioned reads a document. An object is mentioned field by field where the schema has
// fields or a map there.
func mentioned(doc map[string]any, s *props) mention {
	out := mention{}
	for name, value := range doc {
		fields, isMap := value.(map[string]any)
		below := field(s, name)
		if !isMap || len(fields) == 0 || below == nil || kindOf(below) == anything {
			out[name] = nil
			continue
		}
		out[name] = mentioned(fields, below)
	}
	return out
}

// gives says whether a field is given as a whole.
func (m mention) gives(name string) bool {
	below, ok := m[name]
	return ok && below == nil
}
