package tracing

// The names of attributes of spans. The log of a reconcile uses the same names for the same things.
const (
	KeyGroup       = "group"
	KeyVersion     = "version"
	KeyKind        = "kind"
	KeyNamespace   = "namespace"
	KeyName        = "name"
	KeyChange      = "change"
	KeyUID         = "uid"
	KeyRevisionAt  = "resourceVersion"
	KeyManager     = "manager"
	KeyAssumed     = "assumed"
	KeyGeneration  = "generation"
	KeyRevision    = "revision"
	KeyWaited      = "waitedMs"
	KeyCauses      = "causes"
	KeyResult      = "result"
	KeyRequeue     = "requeueAfterMs"
	KeyReason      = "reason"
	KeyUntraced    = "untracedNodes"
	KeyNode        = "node"
	KeyDecision    = "decision"
	KeyVerb        = "verb"
	KeyResource    = "resource"
	KeySubresource = "subresource"
	KeyDryRun      = "dryRun"
	KeyCode        = "code"
	KeyConflict    = "conflict"
	KeyStep        = "step"
	KeyFunction    = "function"
	KeyCall        = "call"
	KeyFatal       = "fatal"
	KeyWarnings    = "warnings"
	KeyTraceID     = "trace_id"
	KeySpanID      = "span_id"
)

// The spans, and the log of a reconcile, as Key.On names them.
const (
	onEvent     = "event"
	onReconcile = "reconcile"
	onNode      = "node"
	onRequest   = "request"
	onFunction  = "function"
	onLog       = "log"
)

// Key is an attribute of spans, or a key of the log of a reconcile.
type Key struct {
	Name string
	// On lists the spans that have it, and "log".
	On      []string
	Meaning string
}

// Keys lists all attributes of spans, and the keys that each line of the log of a reconcile has.
var Keys = []Key{
	{KeyGroup, []string{onEvent, onReconcile, onRequest}, "API group of the object; absent for the core group"},
	{KeyVersion, []string{onReconcile}, "API version in which the object is reconciled"},
	{KeyKind, []string{onEvent, onReconcile, onLog}, "kind of the object"},
	{KeyNamespace, []string{onEvent, onReconcile, onRequest, onLog}, "namespace of the object; absent if it is cluster-scoped"},
	{KeyName, []string{onEvent, onReconcile, onRequest, onLog},
		"name of the object; absent in requests for an object whose name or messages may have data of Secrets"},
	{KeyChange, []string{onEvent}, "Added, Updated or Deleted"},
	{KeyUID, []string{onEvent}, "UID of the object"},
	{KeyRevisionAt, []string{onEvent}, "resource version that the change led to; absent for a deletion"},
	{KeyManager, []string{onEvent}, "field manager that wrote last, by metadata.managedFields; absent for writes of this process"},
	{KeyAssumed, []string{onEvent}, "true if the event arrived before the answer to a request of this process that writes the object: that request is assumed to be the cause"},
	{KeyGeneration, []string{onReconcile}, "metadata.generation of the instance"},
	{KeyRevision, []string{onReconcile}, "revision of the definition that the instance is composed by"},
	{KeyWaited, []string{onReconcile}, "how long the request for the reconcile waited in the queue, in milliseconds"},
	{KeyCauses, []string{onReconcile}, "how many changes asked for the reconcile; the first is the parent, up to seven others are links"},
	{KeyResult, []string{onReconcile}, "done, waiting or failed"},
	{KeyRequeue, []string{onReconcile}, "after how long another reconcile is requested, in milliseconds; absent for never"},
	{KeyReason, []string{onReconcile, onNode, onRequest, onFunction}, "why a node waits or is left out, or the reason of an error; never its message"},
	{KeyUntraced, []string{onReconcile}, "how many nodes have no span, because the reconcile has too many"},
	{KeyNode, []string{onNode}, "ID of the node"},
	{KeyDecision, []string{onNode}, "Create, Update, Correct, Wait, Skip or Delete"},
	{KeyVerb, []string{onRequest}, "verb of the request to the API server: get, list, create, update, patch, delete"},
	{KeyResource, []string{onRequest}, "resource of the request"},
	{KeySubresource, []string{onRequest}, "subresource of the request"},
	{KeyDryRun, []string{onRequest}, "true if the request stores nothing"},
	{KeyCode, []string{onRequest}, "HTTP status code of the answer"},
	{KeyConflict, []string{onRequest}, "true if the answer is 409 Conflict"},
	{KeyStep, []string{onFunction}, "step of the pipeline"},
	{KeyFunction, []string{onFunction}, "name of the function"},
	{KeyCall, []string{onFunction}, "which call of the step this is, from 1: a function is called again when its requirements change"},
	{KeyFatal, []string{onFunction}, "true if the function returned a fatal result"},
	{KeyWarnings, []string{onFunction}, "how many warnings the function returned"},
	{KeyTraceID, []string{onLog}, "trace of the reconcile, if it is sampled"},
	{KeySpanID, []string{onLog}, "span of the reconcile, if it is sampled"},
}
