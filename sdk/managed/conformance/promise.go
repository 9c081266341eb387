package conformance

// Promise is a requirement of a client. Its text is part of the report of a violation.
type Promise string

// Promises about the external resources.
const (
	AtMostOneResource   Promise = "there is never more than one external resource"
	ReachesDesiredState Promise = "reconciles end with exactly one external resource, or with none if the policies do not allow one"
	KeepsExternalName   Promise = "the external name is written under all policies, and never lost"
	DeletesOrOrphans    Promise = "after the deletion of the object, the external resource is deleted if the policies allow that, and exists otherwise"
	Converges           Promise = "reconciles end after a bounded number of calls"
	FollowsPolicies     Promise = "nothing is done that the policies do not allow"
)

// Promises about single methods.
const (
	IdentifyIsPure         Promise = "Identify returns the same key in each call, and a name if and only if the caller assigns names"
	IdentifyUsesAnnotation Promise = "if the caller assigns names, Identify returns the annotation crossplane.io/external-name as the name, if it is set"
	ReadsChangeNothing     Promise = "Identify, Observe, Find, Prepare and Poll change nothing in the external API"
	ObjectIsNotModified    Promise = "no method changes the managed resource that it is called with"
	AbsentIsCertain        Promise = "Observe returns Absent only if the resource certainly does not exist"
	ObserveReturnsRef      Promise = "Observe returns the resource of the given identity, with the same identity"
	ObserveDetectsDrift    Promise = "Observe reports whether the external resource is as the managed resource wants it"
	ObservationIsValid     Promise = "AtProvider and LateInit of an Observation are valid JSON, and fit the type of the kind"
	LateInitOnlyUnset      Promise = "LateInit has only fields of spec.forProvider that are unset"
	MarksAreObserved       Promise = "if Caps.Marked is set, Observe returns the mark of the creation"
	FindsByMark            Promise = "if Caps.Findable is set, Find returns the resources with the mark, and no others"
	PrepareMakesNoCalls    Promise = "Prepare makes no calls: it returns the same request while the external API fails"
	PrepareIsDeterministic Promise = "Prepare returns the same bytes for the same object"
	NoSecrets              Promise = "nothing that is stored, logged or reported contains a secret"
	BeginUsesRequest       Promise = "Begin sends what the stored request says, even if the object has changed since, and does not change the request"
	BeginIsIdempotent      Promise = "two calls of Begin with the same intent have one effect, if names are assigned by the caller or tokens are recognized"
	RejectedHadNoEffect    Promise = "Begin returns Rejected only if the call had no effect"
	CreateReturnsRef       Promise = "a successful creation returns the identity, if neither a name nor a mark identifies the resource"
	PollIsRepeatable       Promise = "Poll is safe to repeat, and returns the same for an operation that is done"
	AdoptsOnlyIfAllowed    Promise = "an existing resource is adopted if an annotation allows that, and otherwise not changed"
	LeavesForeignResources Promise = "a resource with the mark of another object is never changed"
	OneOwner               Promise = "of two managed resources with one external name, the second waits without calls"
	SuiteIsValid           Promise = "the suite is valid"
)
