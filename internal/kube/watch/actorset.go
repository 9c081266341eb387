package watch

import (
	"iter"
	"maps"
)

// actorSet has the actors of a kind by their selections. Nearly every kind has only the actors of all or of managed
// objects; a map for these would take half a kilobyte. The zero value is empty.
type actorSet struct {
	all, managed *actor
	others       map[Selection]*actor
}

// It is nil for none.
func (s *actorSet) get(of Selection) *actor {
	switch of {
	case All():
		return s.all
	case Managed():
		return s.managed
	}
	return s.others[of]
}

func (s *actorSet) add(a *actor) {
	switch a.selection {
	case All():
		s.all = a
	case Managed():
		s.managed = a
	default:
		if s.others == nil {
			s.others = map[Selection]*actor{}
		}
		s.others[a.selection] = a
	}
}

func (s *actorSet) remove(a *actor) {
	switch a.selection {
	case All():
		s.all = nil
	case Managed():
		s.managed = nil
	default:
		delete(s.others, a.selection)
	}
}

func (s *actorSet) isEmpty() bool { return s.all == nil && s.managed == nil && len(s.others) == 0 }

func (s *actorSet) each() iter.Seq[*actor] {
	return func(yield func(*actor) bool) {
		for _, a := range [...]*actor{s.all, s.managed} {
			if a != nil && !yield(a) {
				return
			}
		}
		maps.Values(s.others)(yield)
	}
}
