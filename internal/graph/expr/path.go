package expr

// Path returns the path that the expression consists of, if it is only a path:
// vpc.status.id, but not string(vpc.status.id).
func (p *Program) Path() (Ref, bool) {
	if !p.isPath {
		return Ref{}, false
	}
	return p.refs[0], true
}

// Value returns the value at the path in vars, which is shared and must not be changed, and
// whether it exists. A path through all items of a list has no value.
func (s *Scope) Value(r Ref, vars map[string]any) (any, bool) {
	for _, step := range r.Path {
		if step.Each {
			return nil, false
		}
	}
	value, missing := s.followPath(r, vars)
	return value, missing == nil
}

// Present reports whether vars have a value at the path; a step through all items stands for the first item. Null
// counts as a value.
func (s *Scope) Present(r Ref, vars map[string]any) bool {
	_, missing := s.followPath(r, vars)
	return missing == nil
}
