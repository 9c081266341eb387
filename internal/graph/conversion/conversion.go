package conversion

import "maps"

// KeptAnnotationPrefix begins the names of annotations with values that have no field in
// the object's version. The version that has the fields follows the prefix.
const KeptAnnotationPrefix = "espalier.dev/kept-"

// A conversion does not change its source.
type conversion struct {
	source      map[string]any
	from, to    string
	spec        map[string]any
	annotations map[string]any
	broken      RuleCheck
}

func newConversion(o map[string]any, from, to string) *conversion {
	c := &conversion{source: o, from: from, to: to}
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

func (c *conversion) variables() map[string]any {
	self := map[string]any{"apiVersion": c.source["apiVersion"], "kind": c.source["kind"], "spec": c.spec}
	if metadata, ok := c.source["metadata"]; ok {
		self["metadata"] = metadata
	}
	return map[string]any{selfVariable: self}
}

func (c *conversion) popAnnotation(name string) string {
	text, _ := c.annotations[name].(string)
	delete(c.annotations, name)
	return text
}

// result returns the converted object: all but apiVersion, spec and annotations comes from the source.
func (c *conversion) result(apiVersion string) map[string]any {
	out := maps.Clone(c.source)
	out["apiVersion"] = apiVersion
	if _, had := out["spec"]; had || len(c.spec) > 0 {
		out["spec"] = c.spec
	}
	metadata, _ := c.source["metadata"].(map[string]any)
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

// toHub converts an object of the spoke, and keeps values without a field in the hub.
func (p *Pair) toHub(c *conversion) error { return p.convert(c, p.hubTransform, p.spokeTransform) }

// fromHub converts an object of the hub, and keeps values without a field in the spoke.
func (p *Pair) fromHub(c *conversion) error { return p.convert(c, p.spokeTransform, p.hubTransform) }

// convert applies the transform there. It restores the values that were kept for the target
// version, unless the transform now gives something else in their place, and keeps the
// values that the transform back would not restore.
func (p *Pair) convert(c *conversion, there, back *transform) error {
	if p.identity {
		return nil
	}
	spec, err := there.convertSpec(c.variables())
	if err != nil {
		return err
	}
	p.keeper.restore(spec, c.popAnnotation(KeptAnnotationPrefix+c.to))
	if there.toStored {
		if err := there.validate(spec, c.broken); err != nil {
			return err
		}
	}
	was := c.spec
	c.spec = spec
	given, err := back.convertSpec(c.variables())
	switch {
	case err != nil && there.toStored:
		failed := newError(err) // the stored object could not be converted back
		return &failure{field: failed.Field, expr: failed.Expr, reason: "on the way back: " + failed.Reason}
	case err != nil:
		given = map[string]any{} // keep everything; converting back reports the error
	}
	text, err := p.keeper.keptAnnotation(was, given, back.target.Spec)
	if err != nil {
		return err
	}
	c.popAnnotation(KeptAnnotationPrefix + c.from)
	if text != "" {
		c.annotations[KeptAnnotationPrefix+c.from] = text
	}
	return nil
}
