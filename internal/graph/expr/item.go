package expr

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// indexed is a value from which an expression selects items. CEL compares an index with the size of a list itself, so
// the list cannot record the item that it lacks.
type indexed struct {
	interpreter.InterpretableAttribute
	// sources are the lists whose items computed lists contain, by the selection from the latter.
	sources map[int64]Ref
}

// AddQualifier implements interpreter.InterpretableAttribute.
func (a indexed) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	if c, is := q.(interpreter.ConstantQualifier); !is || c.Value().Type() == types.IntType {
		selection := itemSelection{Qualifier: q}
		if source, ok := a.sources[q.ID()]; ok {
			selection.source = &source
		}
		q = selection
	}
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

type itemSelection struct {
	interpreter.Qualifier
	source *Ref // nil for none
}

// Qualify implements interpreter.Qualifier.
func (q itemSelection) Qualify(vars interpreter.Activation, from any) (any, error) {
	out, err := q.Qualifier.Qualify(vars, from)
	list, isList := from.(traits.Lister)
	if !isList || err == nil {
		return out, err
	}
	if t := q.trailOf(vars, list); t != nil {
		i, ok := q.index(vars)
		if size, _ := list.Size().(types.Int); ok && i >= int(size) {
			q.recordMiss(t, list, i)
		}
	}
	return out, err
}

// trailOf is the trail of the list, or, for a computed list, the trail of the name that its items come from.
func (q itemSelection) trailOf(vars interpreter.Activation, list traits.Lister) *trail {
	var from any = list
	if _, isWrapped := list.(*sequence); !isWrapped && q.source != nil {
		from, _ = vars.ResolveName(q.source.Root)
	}
	switch from := from.(type) {
	case *mapping:
		return from.trail
	case *sequence:
		return from.trail
	}
	return nil
}

// recordMiss records the item that a list lacks, or, if it is a computed list, an item of the list that it comes from.
func (q itemSelection) recordMiss(t *trail, list traits.Lister, index int) {
	if _, is := list.(*sequence); is {
		t.recordMiss(Step{Index: index})
		return
	}
	t.tracker.misses = append(t.tracker.misses, q.source.child(Step{Each: true}))
}

func (q itemSelection) index(vars interpreter.Activation) (int, bool) {
	var value any
	switch by := q.Qualifier.(type) {
	case interpreter.ConstantQualifier:
		value = by.Value()
	case interpreter.Attribute:
		var err error
		if value, err = by.Resolve(vars); err != nil {
			return 0, false
		}
	}
	i, err := types.IndexOrError(types.DefaultTypeAdapter.NativeToValue(value))
	return i, err == nil
}
