package operation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func (s State) resolve() Step {
	if s.Binding.Operation.Imported {
		return s.resolveImported()
	}
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		if s.Caps.Naming == external.CallerAssigned {
			return s.resolveByName()
		}
		return s.resolveByToken()
	case external.Delete:
		return s.resolveDelete()
	case external.Update:
	}
	return s.resolveUpdate()
}

// Observing the resource shows whether the call created it.
func (s State) resolveByName() Step {
	if step, done := s.observe(); done {
		return step
	}
	switch s.Observed.Presence {
	case external.Deleting:
		return finish(resource.NameDeleting, "the external resource of this name is being deleted", s.recheckInterval())
	case external.Present:
		return s.adopt()
	default:
	}
	if s.Binding.Operation.Failed != nil {
		return s.closeFailedCreate()
	}
	left := s.untilVisible(s.Binding.Operation.StartedAt)
	if s.isUnwanted() {
		left = s.untilVisible(s.lastUnresolvedCall()) + arrivalTime // otherwise it is created only to be deleted
	}
	switch {
	case left > 0:
		return s.awaitVisible(left)
	case s.OperationErr != nil && !(s.Binding.Operation.Repeated && left+arrivalTime > 0):
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingReserved }) // the call failed and left nothing
	case s.isUnwanted():
		return s.closeWithoutEffect()
	}
	return s.repeatCall() // safe: the API has at most one resource of a name
}

// The open operation would not be started by now. Then it is not repeated either.
func (s State) isUnwanted() bool {
	switch external.Verb(s.Binding.Operation.Verb) {
	case external.Create:
		return s.Resource.Deleting || !s.Resource.Policies.Allow(resource.ActionCreate)
	case external.Delete:
		return !s.Resource.DeletesExternal
	case external.Update:
	}
	return !s.Resource.Policies.Allow(resource.ActionUpdate)
}

func (s State) closeWithoutEffect() Step {
	return s.updateBinding(func(b *binding.BindingSpec) {
		b.Operation, b.Unresolved, b.Phase, b.Retried = nil, nil, binding.BindingReserved, s.Resource.Retry
	})
}

// repeatCall makes the same call once more. The time of the repetition is stored first, because its effect becomes
// visible late as well. After a failure in this reconcile, the next one repeats the call.
func (s State) repeatCall() Step {
	if s.OperationErr != nil {
		return s.afterRejectedRepeat(Failure(s.OperationErr))
	}
	if !s.RepeatStored {
		return s.updateBinding(func(b *binding.BindingSpec) {
			at := metav1.NewMicroTime(s.Now)
			b.Operation.Repeated, b.Operation.RepeatedAt = true, &at
		})
	}
	return Step{Do: Begin, Intent: s.intent()}
}

func (s State) lastCall() metav1.MicroTime {
	op := s.Binding.Operation
	if op.RepeatedAt != nil {
		return *op.RepeatedAt
	}
	return op.StartedAt
}

// lastUnresolvedCall is when the open creation's call was last made with an unknown outcome,
// which excludes a repetition that was rejected in this reconcile.
func (s State) lastUnresolvedCall() metav1.MicroTime {
	if s.isRepeatRejected() {
		return s.PreviousCall
	}
	return s.lastCall()
}

// isRepeatRejected reports whether this reconcile has repeated the call, and the API has
// rejected or failed it.
func (s State) isRepeatRejected() bool {
	return !s.PreviousCall.IsZero() && s.OperationErr != nil
}

// resolveByToken repeats the call as long as the API recognizes its token.
func (s State) resolveByToken() Step {
	switch ref := s.ref(); {
	case s.Binding.Operation.Failed != nil && s.Binding.Operation.Ref == "":
		return s.resolveFailedCreate()
	case ref != "" && s.Binding.Operation.Ref == "":
		return s.resolveByAnnotation(ref)
	case ref != "":
		return s.resolveByName() // the API has returned the identity
	}
	if s.Now.Sub(s.Binding.Operation.StartedAt.Time) < s.Caps.TokenTTL {
		return s.repeatCall()
	}
	return s.resolveByMark()
}

// resolveByAnnotation binds the external resource that the external-name annotation names as
// the creation's result. If it does not exist or belongs to another owner, the outcome of the
// creation stays unknown.
func (s State) resolveByAnnotation(ref external.Ref) Step {
	if step, done := s.observe(); done {
		return step
	}
	reason := fmt.Sprintf("the external resource %s does not exist", ref)
	switch s.Observed.Presence {
	case external.Deleting:
		reason = fmt.Sprintf("the external resource %s is being deleted", ref)
	case external.Present:
		mark, conflict := s.checkOwnership()
		if conflict == "" {
			return s.bind(s.observedRef(), mark)
		}
		reason = conflict
	default:
	}
	step := s.unresolved(reason)
	if step.Do == Finish {
		step.After = s.Resource.PollInterval
	}
	return step
}

// arrivalTime is how long a call may take to arrive after its process has died. Only a name
// or a token rules a second resource out. With a mark alone, waiting makes one unlikely, and
// the mark finds it.
const arrivalTime = 10 * time.Second

// resolveByMark searches for the resource by its mark, once the API shows all effects of the
// last call.
func (s State) resolveByMark() Step {
	if !s.Caps.Findable {
		reason := "the external API cannot search for it"
		if s.OperationErr != nil && s.OperationErr.Mismatch {
			reason += ": " + s.OperationErr.Message
		}
		return s.unresolved(reason)
	}
	if left := s.untilVisible(s.lastUnresolvedCall()) + arrivalTime; left > 0 {
		return s.awaitVisible(left)
	}
	switch {
	case s.ObserveErr != nil:
		return Failure(fmt.Errorf("search for the external resource: %w", s.ObserveErr))
	case !s.SearchedByMark:
		return Step{Do: FindByMark}
	case len(s.FoundByMark) > 1:
		return s.reportDuplicates()
	case len(s.FoundByMark) == 1:
		return s.bind(s.FoundByMark[0].Ref, s.Binding.Mark)
	case s.Binding.Operation.Imported && s.Binding.Operation.Resume != "":
		step := s.unresolved("the external API had accepted it before the export, and may still create the external resource")
		if step.Do == Finish {
			step.After = s.Resource.PollInterval
		}
		return step
	case s.isUnwanted():
		return s.closeWithoutEffect()
	}
	return s.openOperation(external.Create, binding.BindingCreating) // the call had no effect
}

// It ends the reconcile with a conflict: a user has to choose which of several external resources to keep.
func (s State) reportDuplicates() Step {
	return finish(resource.Conflict, fmt.Sprintf("%d external resources carry the mark of this object: %s. None is deleted; keep one, and remove the mark from the others", len(s.FoundByMark), joinRefs(s.FoundByMark)), s.recheckInterval())
}

// checkDuplicates searches once more, after a creation whose call was repeated, for a second resource that a late call
// may have created. If names rule a second one out, it only delays a deletion until no late call can arrive any more.
func (s State) checkDuplicates() (step Step, done bool) {
	switch {
	case s.Binding.Doubted == nil:
		return Step{}, false
	case !s.mayDuplicate():
		left := s.untilArrived()
		return s.awaitVisible(left), left > 0 && s.Resource.Deleting && s.Resource.DeletesExternal
	case s.untilDuplicatesVisible() > 0 && s.Resource.Deleting:
		return s.awaitVisible(s.untilDuplicatesVisible()), true
	case s.untilDuplicatesVisible() > 0:
		return Step{}, false
	case s.ObserveErr != nil:
		return Failure(fmt.Errorf("search for a second external resource: %w", s.ObserveErr)), true
	case !s.SearchedByMark:
		return Step{Do: FindByMark}, true
	case len(s.FoundByMark) > 1:
		return s.reportDuplicates(), true
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Doubted = nil }), true
}

// mayDuplicate reports whether a repeated creation may have created a second resource that
// a search can find. With names that we choose, there is at most one.
func (s State) mayDuplicate() bool {
	return s.Caps.Findable && s.Caps.Naming == external.ProviderAssigned
}

// untilArrived is how long the first of several calls of a creation may still arrive. If
// their resource is deleted before that, a late call creates it again: the name prevents
// that only while the resource exists. A token that is valid for so long prevents it, too.
func (s State) untilArrived() time.Duration {
	if s.Caps.TokenTTL >= arrivalTime {
		return 0
	}
	return s.untilVisible(*s.Binding.Doubted) + arrivalTime
}

// untilDuplicatesVisible is how long it takes until a second resource would be visible. The
// first call may still arrive, unless its token stays valid until it has.
func (s State) untilDuplicatesVisible() time.Duration {
	left := s.untilVisible(*s.Binding.Doubted)
	if s.Caps.TokenTTL < arrivalTime {
		left += arrivalTime
	}
	return left
}

func joinRefs(found []external.Observation) string {
	text := ""
	for i, o := range found {
		if i > 0 {
			text += ", "
		}
		text += string(o.Ref)
	}
	return text
}

// It waits for a user to set an annotation: another creation could create a second resource, and no name, token or mark
// would show it.
func (s State) unresolved(reason string) Step {
	b := s.Binding
	retryRequested := s.Resource.Retry != "" && s.Resource.Retry != b.Retried
	switch {
	case retryRequested && s.isUnwanted():
		return s.closeWithoutEffect()
	case retryRequested:
		retry := s.openOperation(external.Create, binding.BindingCreating)
		if retry.Do == UpdateBinding {
			retry.Binding.Retried, retry.Binding.Explicit, retry.Binding.StaleName = s.Resource.Retry, false, s.Resource.ExternalName
		}
		return retry
	case s.Resource.ExternalName != "" && !b.Explicit:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Explicit = true })
	case b.Unresolved == nil:
		return s.updateBinding(func(b *binding.BindingSpec) {
			b.Unresolved = &binding.BindingUnresolved{Since: metav1.NewMicroTime(s.Now), Message: reason}
		})
	}
	if strings.HasPrefix(b.Unresolved.Message, reason) {
		reason = b.Unresolved.Message // with what the external API has answered
	}
	return finish(resource.CreateUnresolved,
		fmt.Sprintf("since %s it is unknown whether the creation started at %s had an effect: %s. Look for the external resource. If there is one, run: %s; if there is none, run: %s",
			b.Unresolved.Since.UTC().Format(time.RFC3339), b.Operation.StartedAt.UTC().Format(time.RFC3339), strings.TrimSuffix(reason, "."),
			s.annotateCommand(resource.ExternalNameAnnotation, "ID"), s.annotateCommand(resource.RetryAnnotation, s.nextRetry())), 0)
}

func (s State) annotateCommand(annotation, value string) string {
	owner := s.Binding.Owner
	kind, namespace := owner.Kind, ""
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && gv.Group != "" {
		kind += "." + gv.Group
	}
	if owner.Namespace != "" {
		namespace = " -n " + owner.Namespace
	}
	return fmt.Sprintf("kubectl annotate %s %s%s %s=%s --overwrite", kind, owner.Name, namespace, annotation, value)
}

// nextRetry is a value of the retry annotation that requests one more repetition.
func (s State) nextRetry() string {
	was, _ := strconv.Atoi(s.Resource.Retry) // another text is no number, and differs from each
	done, _ := strconv.Atoi(s.Binding.Retried)
	return strconv.Itoa(max(was, done, 0) + 1)
}

// The update is repeated unless the external resource shows its effect.
func (s State) resolveUpdate() Step {
	if step, done := s.observe(); done {
		return step
	}
	switch {
	case s.Observed.Presence != external.Present || s.Observed.UpToDate == external.Yes, s.isForeign(), s.isReplaced():
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
	case s.Observed.UpToDate == external.CannotTell && s.Observed.Ready != external.Yes:
		return s.awaitChange()
	case s.untilVisible(s.Binding.Operation.StartedAt) > 0:
		return s.awaitVisible(s.untilVisible(s.Binding.Operation.StartedAt)).with(s.readyCondition())
	case s.isUnwanted():
		return s.closeUnwanted().with(s.readyCondition())
	}
	return Step{Do: Begin, Intent: s.intent()}
}

// It does so once the operation's call cannot arrive any more.
func (s State) closeUnwanted() Step {
	if left := s.untilVisible(s.Binding.Operation.StartedAt) + arrivalTime; left > 0 {
		return s.awaitVisible(left)
	}
	return s.updateBinding(func(b *binding.BindingSpec) { b.Operation, b.Phase = nil, binding.BindingBound })
}

func (s State) awaitChange() Step {
	return Step{
		Do: Finish, After: s.recheckInterval(), Ready: s.readyCondition(),
		Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress, "the external resource is changing: "+s.Observed.State),
	}
}

// It repeats the deletion as long as the external resource belongs to the managed resource.
func (s State) resolveDelete() Step {
	if step, done := s.observe(); done {
		return step
	}
	switch {
	case s.Observed.Presence == external.Absent:
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation = nil })
	case s.Observed.Presence == external.Deleting:
		return Step{
			Do: Finish, After: s.recheckInterval(), Ready: deletingCondition(s),
			Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress, "deleting the external resource: "+s.Observed.State),
		}
	case s.isForeign(), s.isReplaced():
		return s.updateBinding(func(b *binding.BindingSpec) { b.Operation = nil })
	case s.untilVisible(s.Binding.Operation.StartedAt) > 0:
		return s.awaitVisible(s.untilVisible(s.Binding.Operation.StartedAt)).with(deletingCondition(s))
	case s.isUnwanted():
		return s.closeUnwanted().with(deletingCondition(s))
	}
	return Step{Do: Begin, Intent: s.intent()}
}

// It waits until the external API shows all recent changes.
func (s State) awaitVisible(left time.Duration) Step {
	return Step{Do: Finish, After: left, Synced: syncedCondition(metav1.ConditionUnknown, resource.OperationInProgress,
		"waiting until the external API shows all recent changes")}
}

// recheckInterval is how often to observe something that changes without an event.
func (s State) recheckInterval() time.Duration {
	return max(s.Caps.Settle, pollInterval)
}
