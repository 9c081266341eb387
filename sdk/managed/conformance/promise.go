package conformance

// Promise is something that a client has to keep. The text is what is told when it
// isn't.
type Promise string

// Promises about what is there.
const (
	OneResource     Promise = "there is never more than one external resource"
	RestsInOrder    Promise = "it comes to rest with exactly one external resource, or with none where policies don't let one be"
	KeepsItsName    Promise = "the external name is written whatever the policies are, and never lost"
	LeavesNothing   Promise = "after deletion the external resource is gone where policies delete it, and left in place where they don't"
	ComesToRest     Promise = "it comes to rest after a bounded number of calls"
	FollowsPolicies Promise = "nothing is done that the policies don't allow"
)

// Promises about single methods.
const (
	IdentifyIsPure      Promise = "Identify gives the same key whenever it is asked, with a name exactly where the caller assigns one"
	IdentifyTakesName   Promise = "where the caller assigns names, Identify takes the annotation crossplane.io/external-name for the name, if it is set"
	ReadsChangeNothing  Promise = "Identify, Observe, Find, Prepare and Poll change nothing outside"
	ObjectIsLeftAlone   Promise = "no method changes the managed resource that it is given"
	AbsentIsCertain     Promise = "Observe says Absent only when there is none for certain"
	ObservesWhatIsThere Promise = "Observe tells of the resource that it is asked for, by the same identity"
	ObserveTellsDiffers Promise = "Observe tells whether the external resource is as the managed resource wants it"
	ObservationFits     Promise = "what an Observation holds for the managed resource fits the kind's type, and JSON"
	LateInitOfUnset     Promise = "LateInit is about fields of spec.forProvider that nobody has set"
	MarksAreSeen        Promise = "where Caps say Marked, Observe shows the mark that the creation was told to put"
	FindsByMark         Promise = "where Caps say Findable, Find lists what carries the mark and nothing else"
	PrepareMakesNoCalls Promise = "Prepare gives the same whether or not the external API can be reached, since it makes no calls"
	PrepareIsSame       Promise = "Prepare gives the same bytes for the same object"
	NoSecrets           Promise = "nothing that is stored or told holds a secret"
	RequestsAreFrozen   Promise = "Begin asks what the request says, whatever has become of the object since, and leaves the request as it is"
	BeginRepeats        Promise = "Begin of the same intent twice has one effect, where a name or a token sees to that"
	RejectedHadNoEffect Promise = "Begin says Rejected only when there was no effect"
	IdentityIsTold      Promise = "a creation that has ended well tells the identity, where no name or mark does"
	PollRepeats         Promise = "Poll is safe to repeat, and tells the same of an operation that has ended"
	AdoptsOnlyWhenAsked Promise = "what is there and isn't ours is left alone without an annotation that says otherwise, and taken on with it"
	LeavesWhatIsOthers  Promise = "what carries another's mark is never changed"
	OneOwner            Promise = "of two managed resources on one name the second waits, and asks for nothing"
	SuiteMakesSense     Promise = "the suite makes sense"
)
