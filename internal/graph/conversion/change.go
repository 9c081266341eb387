package conversion

import "maps"

// KeptPrefix begins the names of the annotations with what an object of another version
// has no room for; the version that has follows.
const KeptPrefix = "espalier.dev/kept-"

// change is an object on its way from one version to the other. What it was isn't
// changed.
type change struct {
	was         map[string]any
	from, to    string
	spec        map[string]any
	annotations map[string]any
}

func newChange(o map[string]any, from, to string) *change {
	c := &change{was: o, from: from, to: to}
	c.spec, _ = o["spec"].(map[string]any)
	if c.spec == nil {
		c.spec = map[string]any{}
	}
	metadata, _ := o["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	c.annotations = maps.Clone(annotations)
	if c.annotations == nil {
		c.annotations = map[string]any{}
	}
	return c
}

// self is what expressions read.
func (c *change) self() map[string]any {
	self := map[string]any{"apiVersion": c.was["apiVersion"], "kind": c.was["kind"], "spec": c.spec}
	if metadata, ok := c.was["metadata"]; ok {
		self["metadata"] = metadata
	}
	return map[string]any{selfVariable: self}
}

// take takes an annotation off.
func (c *change) take(name string) string {
	text, _ := c.annotations[name].(string)
	delete(c.annotations, name)
	return text
}

// object is what has become of it: all but version, spec and annotations is as it was.
func (c *change) object(apiVersion string) map[string]any {
	out := maps.Clone(c.was)
	out["apiVersion"] = apiVersion
	if _, had := out["spec"]; had || len(c.spec) > 0 {
		out["spec"] = c.spec
	}
	metadata, _ := c.was["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	switch {
	case len(c.annotations) > 0 && metadata == nil:
		metadata = map[string]any{"annotations": c.annotations}
	case len(c.annotations) > 0:
		metadata["annotations"] = c.annotations
	default:
		delete(metadata, "annotations")
	}
	if metadata != nil {
		out["metadata"] = metadata
	}
	return out
}

// toHub converts an object of the spoke, and notes what of it the hub has no room for.
func (p *Pair) toHub(c *change) error { return p.convert(c, p.to, p.from) }

// fromHub converts an object of the hub, and notes what of it the spoke has no room for.
func (p *Pair) fromHub(c *change) error { return p.convert(c, p.from, p.to) }

// convert takes the way there. What had been kept for it is put back, where the way gives
// what it gave then; what the way back wouldn't give is kept.
func (p *Pair) convert(c *change, there, back *way) error {
	if p.same {
		return nil
	}
	spec, err := there.spec(c.self())
	if err != nil {
		return err
	}
	p.keeper.restore(spec, c.take(KeptPrefix+c.to))
	if there.strict {
		if err := there.misfit(spec); err != nil {
			return err
		}
	}
	was := c.spec
	c.spec = spec
	given, err := back.spec(c.self())
	switch {
	case err != nil && there.strict:
		failed := explain(err) // nobody could read it again as it was written
		return &failure{field: failed.Field, expr: failed.Expr, reason: "on the way back: " + failed.Reason}
	case err != nil:
		given = map[string]any{} // all of it is kept; who writes it back is told
	}
	text, err := p.keeper.keep(was, given, back.target.Spec)
	if err != nil {
		return err
	}
	c.take(KeptPrefix + c.from)
	if text != "" {
		c.annotations[KeptPrefix+c.from] = text
	}
	return nil
}
