package expr

// Path returns the path that the expression consists of, if it is one alone:
// vpc.status.id, but not string(vpc.status.id).
func (p *Program) Path() (Ref, bool) {
	if p.chain == nil {
		return Ref{}, false
	}
	return *p.chain, true
}

// Value returns what the path leads to in vars, which is shared, and whether it leads
// to anything. A path through any item of a list leads to none.
func (e *Env) Value(r Ref, vars map[string]any) (any, bool) {
	for _, s := range r.Path {
		if s.Each {
			return nil, false
		}
	}
	value, missing := e.follow(r, vars)
	return value, missing == nil
}

// Present tells whether the path leads to a value in vars. Null is one.
func (e *Env) Present(r Ref, vars map[string]any) bool {
	_, missing := e.follow(r, vars)
	return missing == nil
}
