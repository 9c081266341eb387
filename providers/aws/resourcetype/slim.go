package resourcetype

// DropDescriptions removes the descriptions, which are most of a type's memory and which only people read.
func (t *Type) DropDescriptions() {
	seen := map[*Schema]bool{}
	t.Description = ""
	drop(&t.Schema, seen)
	for _, s := range t.Definitions {
		drop(s, seen)
	}
}

func drop(s *Schema, seen map[*Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	s.Description = ""
	for _, below := range s.Properties {
		drop(below, seen)
	}
	for _, below := range s.PatternProperties {
		drop(below, seen)
	}
	drop(s.Items, seen)
	if s.AdditionalProperties != nil {
		drop(s.AdditionalProperties.Schema, seen)
	}
	for _, branch := range s.alternatives() {
		drop(branch, seen)
	}
}
