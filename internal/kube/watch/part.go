package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Part says which managed objects this process needs, if it is one of several replicas: those of the owners that it
// reconciles. Its methods are called concurrently.
type Part interface {
	// SlotOf returns the slot of the owner of a managed object. It is not known if the object's metadata do not prove
	// who the owner is: such an object is in every part.
	SlotOf(o *unstructured.Unstructured) (slot shard.Slot, known bool)
	// SlotOfSubscriber returns the slot of a subscriber. It reads the managed objects of owners in this slot only. It
	// is called without locks.
	SlotOfSubscriber(Subscriber) shard.Slot
	// Slots are those of the part. Each change of them is followed by a call of PartChanged. It must not block or
	// call the hub.
	Slots() shard.Set
}

// PartChanged makes the stores of managed objects follow Config.Part. Objects of slots that have left the part leave
// the stores at once, without an event: they exist. Kinds are listed again for slots that were added, and until then a
// read of a subscriber in such a slot is Syncing. It must not be called concurrently.
func (h *Hub) PartChanged() {
	if h.env.Part == nil {
		return
	}
	all := h.actorsOf(func(*kind) bool { return true })
	for _, a := range all {
		a.partChanged()
	}
}

func (a *actor) partChanged() {
	if a.store.part == nil {
		return
	}
	dropped, isWider := a.store.setSlots(a.env.Part.Slots())
	a.notifyOfDropped(dropped)
	if isWider {
		a.relist()
	}
}

// relist ends the running session, whose list or events lack objects that are wanted now, or the wait for the next.
func (a *actor) relist() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interrupt != nil {
		a.interrupt()
		return
	}
	select {
	case a.retryNow <- struct{}{}:
	default: // a retry is requested already
	}
}

// awaitPart waits, before anything was listed, until the part has a slot: a process that joins others needs one list,
// not another one as soon as it knows its part.
func (a *actor) awaitPart(done <-chan struct{}) {
	for a.store.awaitsPart() {
		select {
		case <-done:
			return
		case <-a.retryNow:
		}
	}
}

// notifyOfDropped wakes the subscribers that have read objects of other slots, by their names: the store has no events
// of these any more.
func (a *actor) notifyOfDropped(dropped []*unstructured.Unstructured) {
	now, slots := time.Now(), a.env.Part.Slots()
	for _, o := range dropped {
		for _, l := range a.router.listenersOf(transition{old: o}) {
			if slots.Has(a.env.Part.SlotOfSubscriber(l.subscriber)) {
				l.wake(Cause{Object: object.KeyOf(o), Change: Resync, Old: metadataFrom(o), New: metadataFrom(o), Priority: Background, ObservedAt: now})
			}
		}
	}
}

// notifyIn wakes the subscribers in some slots, about the kind.
func (a *actor) notifyIn(slots shard.Set) {
	if slots.IsEmpty() {
		return
	}
	var all uniqueSet[*listener]
	a.mu.Lock()
	all.addAll(&a.subscribers)
	a.mu.Unlock()
	cause := Cause{Object: object.Key{Group: a.gvk.Group, Kind: a.gvk.Kind}, Change: KindState, Priority: Background, ObservedAt: time.Now()}
	for _, l := range all.list {
		if slots.Has(a.env.Part.SlotOfSubscriber(l.subscriber)) {
			l.wake(cause)
		}
	}
}

// slotOf is the slot whose part of the store a lease reads.
func (l *Lease) slotOf() shard.Slot {
	if l.hub.env.Part == nil {
		return 0
	}
	return l.hub.env.Part.SlotOfSubscriber(l.sub.listener.subscriber)
}

// ownerSlot is the slot of a managed object's owner. The zero value is that of an object that is in every part.
type ownerSlot struct {
	slot  shard.Slot
	known bool
}

// ownerSlotOf returns the slot of an object's owner. It needs no lock.
func (s *store) ownerSlotOf(o *unstructured.Unstructured) (of ownerSlot) {
	if s.part != nil {
		of.slot, of.known = s.part.SlotOf(o)
	}
	return of
}

// isOfOtherPart reports whether an object is in the part of another replica, and in which slot. The slot may be added
// to this part soon: see strippedObject.
func (s *store) isOfOtherPart(o *unstructured.Unstructured) (slot shard.Slot, other bool) {
	if s.part == nil {
		return 0, false
	}
	of := s.ownerSlotOf(o)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return of.slot, !s.keeps(of)
}

// keeps reports whether an object of an owner in the slot is in the part. The lock is held.
func (s *store) keeps(of ownerSlot) bool { return !of.known || s.slots.Has(of.slot) }

// completeFor reports whether the store has all objects of the owners in a slot. The lock is held.
func (s *store) completeFor(slot shard.Slot) bool {
	return s.complete && (s.part == nil || s.covered.Has(slot))
}

// awaitsPart reports whether nothing is to be listed yet: the part has no slots.
func (s *store) awaitsPart() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.part != nil && s.slots.IsEmpty() && !s.complete
}

// setSlots changes the slots of the part. It returns the objects that have left the store, and whether slots were
// added, of which it has no objects before the next list.
func (s *store) setSlots(slots shard.Set) (dropped []*unstructured.Unstructured, isWider bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.slots.Without(slots)
	isWider = !slots.Without(s.slots).IsEmpty()
	s.slots, s.covered = slots, s.covered.Without(lost)
	if lost.IsEmpty() || s.closed {
		return nil, isWider
	}
	left := map[objectName]entry{} // a map does not shrink
	for name, e := range s.entries {
		if s.keeps(e.ownerSlot) {
			left[name] = e
			continue
		}
		dropped = append(dropped, e.object)
	}
	s.entries, s.owned = left, ownedBy(left, s.ownerLabel)
	return dropped, isWider
}

// dropMoved drops an object with a newer revision that is not in the part: its owner is another one now. The lock is held.
func (s *store) dropMoved(name objectName, revision uint64) []transition {
	e, ok := s.entries[name]
	if !ok || revision != 0 && revision <= e.revision {
		return nil
	}
	s.unset(name)
	return []transition{{old: e.object}}
}

// observeOtherPart is observe for an object that is not in the part. If its slot has been added meanwhile, the list that
// follows has it.
func (s *store) observeOtherPart(o *unstructured.Unstructured) []transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := revisionOf(o)
	s.advanceRevision(revision)
	if s.closed {
		return nil
	}
	return s.dropMoved(nameOf(o), revision)
}

// strippedObject stands for an object of another part in a list. If its slot is added to the part before the list is
// stored, the list is not complete for that.
type strippedObject struct {
	unstructured.Unstructured
	slot shard.Slot
}

func stripped(o *unstructured.Unstructured, slot shard.Slot) *strippedObject {
	s := &strippedObject{slot: slot}
	s.SetNamespace(o.GetNamespace())
	s.SetName(o.GetName())
	return s
}
