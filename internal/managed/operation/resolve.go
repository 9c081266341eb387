package operation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// resolve finds out what came of a call whose answer nobody has.
func (s State) resolve() Step {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		if s.Caps.Naming == external.CallerAssigned {
			return s.byName()
		}
		return s.byToken()
	case external.Delete:
		return s.resolveDelete()
	case external.Update:
	}
	return s.resolveUpdate()
}

// byName looks whether there is what we have named.
func (s State) byName() Step {
	if step, done := s.look(); done {
		return step
	}
	switch s.Look.Presence {
	case external.Deleting:
		return rest(resource.NameDeleting, "the external resource of this name is being deleted", s.soon())
	case external.Present:
		return s.takeOn()
	default:
	}
	if s.Binding.Operation.Failed != nil {
		return s.leftNothing()
	}
	left := s.left(s.Binding.Operation.StartedAt)
	if s.unwanted() {
		left = s.left(s.called()) + onTheWay // it isn't made for being deleted
	}
	switch {
	case left > 0:
		return s.settles(left)
	case s.Failed != nil && !(s.Binding.Operation.Repeated && left+onTheWay > 0):
		return s.record(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingReserved }) // it has failed and left nothing
	case s.unwanted():
		return s.neverMade()
	}
	return s.again() // the API has one of a name at most
}

// unwanted says that the open operation wouldn't be begun by now, so that it isn't
// repeated either.
func (s State) unwanted() bool {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		return s.Resource.Deleting || !s.Resource.Policies.Allow(resource.ActionCreate)
	case external.Delete:
		return !s.Resource.Deletes
	case external.Update:
	}
	return !s.Resource.Policies.Allow(resource.ActionUpdate)
}

// neverMade closes a creation that has had no effect and isn't wanted any more.
func (s State) neverMade() Step {
	return s.record(func(b *binding.BindingSpec) {
		b.Operation, b.Unresolved, b.Phase, b.Retried = nil, nil, binding.BindingReserved, s.Resource.Retry
	})
}

// again makes the same call once more, and remembers that, and when: that one takes its
// time as well. What has failed in this pass is left for the next.
func (s State) again() Step {
	if s.Failed != nil {
		return s.refusedSo(Fails(s.Failed))
	}
	if !s.Again {
		return s.record(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.Operation.Repeated, b.Operation.RepeatedAt = true, &at
		})
	}
	return Step{Do: Begin, Intent: s.intent()}
}

// lastCall is when the call of the open creation was made last.
func (s State) lastCall() metav1.MicroTime {
	op := s.Binding.Operation
	if op.RepeatedAt != nil {
		return *op.RepeatedAt
	}
	return op.StartedAt
}

// called is when the call of the open creation was made last of which it isn't known
// what came of it: not the one that was refused just now.
func (s State) called() metav1.MicroTime {
	if s.refusedAgain() {
		return s.Earlier
	}
	return s.lastCall()
}

// refusedAgain says that this pass has repeated a call and was refused, or has failed.
func (s State) refusedAgain() bool {
	return !s.Earlier.IsZero() && s.Failed != nil
}

// byToken repeats the call, if the API knows it again.
func (s State) byToken() Step {
	switch ref := s.ref(); {
	case s.Binding.Operation.Failed != nil && s.Binding.Operation.Ref == "":
		return s.byTraces()
	case ref != "" && s.Binding.Operation.Ref == "":
		return s.bySaying(ref)
	case ref != "":
		return s.byName() // the API has said which it is
	}
	if s.Now.Sub(s.Binding.Operation.StartedAt.Time) < s.Caps.TokenTTL {
		return s.again()
	}
	return s.byMark()
}

// bySaying looks at what somebody has said that a creation has made. That it isn't
// there, or isn't ours, says nothing of what was made.
func (s State) bySaying(ref external.Ref) Step {
	if step, done := s.look(); done {
		return step
	}
	why := fmt.Sprintf("there is no external resource %s", ref)
	switch s.Look.Presence {
	case external.Deleting:
		why = fmt.Sprintf("the external resource %s is being deleted", ref)
	case external.Present:
		mark, notOurs := s.ours()
		if notOurs == "" {
			return s.bind(s.refOf(), mark)
		}
		why = notOurs
	default:
	}
	step := s.unresolved(why)
	if step.Do == Rest {
		step.After = s.Resource.Poll
	}
	return step
}

// onTheWay is how long a call may take to arrive whose process has died. Only a
// name or a token rules a second resource out; where there is a mark alone, time
// makes it unlikely, and the mark finds it.
const onTheWay = 10 * time.Second

// byMark looks for what carries our mark, once all that there is shows.
func (s State) byMark() Step {
	if !s.Caps.Findable {
		return s.unresolved("the external API can't be asked for it")
	}
	if left := s.left(s.called()) + onTheWay; left > 0 {
		return s.settles(left)
	}
	switch {
	case s.LookFailed != nil:
		return Fails(fmt.Errorf("look for the external resource: %w", s.LookFailed))
	case !s.Searched:
		return Step{Do: Search}
	case len(s.Found) > 1:
		return s.several()
	case len(s.Found) == 1:
		return s.bind(s.Found[0].Ref, s.Binding.Mark)
	case s.unwanted():
		return s.neverMade()
	}
	return s.open(external.Create, binding.BindingCreating) // it never came to be
}

// several parks what can't be decided here.
func (s State) several() Step {
	return rest(resource.Conflict, fmt.Sprintf("%d external resources carry the mark of this one: %s. None is deleted; keep one, and take the mark off the others", len(s.Found), refs(s.Found)), s.soon())
}

// doubt looks once more, after a creation whose call had to be made again, whether
// a late call has made a second one. Where it can't look, and a name rules that out, it
// only keeps what is there from being deleted before a late call has arrived.
func (s State) doubt() (step Step, done bool) {
	switch {
	case s.Binding.Doubted == nil:
		return Step{}, false
	case !s.mayDouble():
		left := s.mayArrive()
		return s.settles(left), left > 0 && s.Resource.Deleting && s.Resource.Deletes
	case s.doubted() > 0 && s.Resource.Deleting:
		return s.settles(s.doubted()), true
	case s.doubted() > 0:
		return Step{}, false
	case s.LookFailed != nil:
		return Fails(fmt.Errorf("look for a second external resource: %w", s.LookFailed)), true
	case !s.Searched:
		return Step{Do: Search}, true
	case len(s.Found) > 1:
		return s.several(), true
	}
	return s.record(func(b *binding.BindingSpec) { b.Doubted = nil }), true
}

// mayDouble says whether a creation whose call was made again may have made a second
// resource, which can be found: under one name there is one.
func (s State) mayDouble() bool {
	return s.Caps.Findable && s.Caps.Naming == external.ProviderAssigned
}

// mayArrive is how long the first of several calls of a creation may be on its way, and,
// once what they have made is deleted, make it anew: the name rules a second one out only
// while there is the first. A token that is honoured for so long does then as well.
func (s State) mayArrive() time.Duration {
	if s.Caps.TokenTTL >= onTheWay {
		return 0
	}
	return s.left(*s.Binding.Doubted) + onTheWay
}

// doubted is how long it takes until a second resource would show: the first call may
// be on its way, unless its token is honoured until it has arrived.
func (s State) doubted() time.Duration {
	left := s.left(*s.Binding.Doubted)
	if s.Caps.TokenTTL < onTheWay {
		left += onTheWay
	}
	return left
}

func refs(found []external.Observation) string {
	text := ""
	for i, o := range found {
		if i > 0 {
			text += ", "
		}
		text += string(o.Ref)
	}
	return text
}

// unresolved waits for somebody to say: a second creation could make a second
// resource, and no name, token or mark would tell.
func (s State) unresolved(why string) Step {
	b := s.Binding
	asked := s.Resource.Retry != "" && s.Resource.Retry != b.Retried
	switch {
	case asked && s.unwanted():
		return s.neverMade()
	case asked:
		retry := s.open(external.Create, binding.BindingCreating)
		if retry.Do == Record {
			retry.Binding.Retried, retry.Binding.Explicit = s.Resource.Retry, false
		}
		return retry
	case s.Resource.ExternalName != "" && !b.Explicit:
		return s.record(func(b *binding.BindingSpec) { b.Explicit = true })
	case b.Unresolved == nil:
		return s.record(func(b *binding.BindingSpec) {
			b.Unresolved = &binding.BindingUnresolved{Since: metav1.NewMicroTime(s.Now), Message: why}
		})
	}
	return rest(resource.CreateUnresolved, fmt.Sprintf("since %s it can't be told whether the creation begun at %s has had its effect: %s. Look for the resource; then set the annotation %s to its identity, or, if there is none, %s to any new value",
		b.Unresolved.Since.UTC().Format(time.RFC3339), b.Operation.StartedAt.UTC().Format(time.RFC3339), why,
		resource.ExternalNameAnnotation, resource.RetryAnnotation), 0)
}

// resolveUpdate repeats an update, unless it shows that it has had its effect.
func (s State) resolveUpdate() Step {
	if step, done := s.look(); done {
		return step
	}
	switch {
	case s.Look.Presence != external.Present || s.Look.UpToDate == external.Yes:
		return s.record(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
	case s.Look.UpToDate == external.CannotTell && s.Look.Ready != external.Yes:
		return s.busy()
	case s.left(s.Binding.Operation.StartedAt) > 0:
		return s.settles(s.left(s.Binding.Operation.StartedAt)).with(s.ready())
	case s.unwanted():
		return s.letBe().with(s.ready())
	}
	return Step{Do: Begin, Intent: s.intent()}
}

// letBe closes an operation that isn't wanted any more, of what is there, once it
// can't be on its way.
func (s State) letBe() Step {
	if left := s.left(s.Binding.Operation.StartedAt) + onTheWay; left > 0 {
		return s.settles(left)
	}
	return s.record(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
}

// busy waits for an external resource that is changing.
func (s State) busy() Step {
	return Step{
		Do: Rest, After: s.soon(), Ready: s.ready(),
		Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, "the external resource is changing: "+s.Look.State),
	}
}

// resolveDelete repeats a deletion, as long as what is there is ours.
func (s State) resolveDelete() Step {
	if step, done := s.look(); done {
		return step
	}
	switch {
	case s.Look.Presence == external.Absent:
		return s.record(func(b *binding.BindingSpec) { b.Operation = nil })
	case s.Look.Presence == external.Deleting:
		return Step{
			Do: Rest, After: s.soon(), Ready: deleting(s),
			Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, "deleting the external resource: "+s.Look.State),
		}
	case s.foreign():
		return s.record(func(b *binding.BindingSpec) { b.Operation = nil })
	case s.left(s.Binding.Operation.StartedAt) > 0:
		return s.settles(s.left(s.Binding.Operation.StartedAt)).with(deleting(s))
	case s.unwanted():
		return s.letBe().with(deleting(s))
	}
	return Step{Do: Begin, Intent: s.intent()}
}

// settles waits until the external API shows what has happened.
func (s State) settles(left time.Duration) Step {
	return Step{Do: Rest, After: left, Synced: synced(metav1.ConditionUnknown, resource.OperationInProgress, "waiting until the external API shows what has happened")}
}

// soon is when to look again at something that changes by itself.
func (s State) soon() time.Duration {
	return max(s.Caps.Settle, pollEvery)
}
