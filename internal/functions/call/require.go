package call

// Schema is the OpenAPI schema of a kind as the API server knows it.
type Schema struct {
	// Digest names its content. It is empty if there is no such kind.
	Digest string
	// Read returns it. What is returned belongs to the caller.
	Read func() (map[string]any, error)
}

// Kind names a kind whose schema is required.
type Kind struct{ APIVersion, Kind string }

// Selector names an object that is required. A cluster-scoped one has no namespace.
type Selector struct {
	APIVersion, Kind, Namespace, Name string
	// Labels select several objects instead of the one of a name; nil for that one.
	Labels map[string]string
}

// Requirements are what a function has to know, each by a key of its own. It is called
// again with it, until it requires nothing else.
type Requirements struct {
	Resources map[string]Selector
	Schemas   map[string]Kind
}

// Given is what of former requirements is known.
type Given struct {
	// Resources are the objects that there are, by the keys of what was looked for.
	Resources map[string][]map[string]any
	// Schemas by the keys of what was looked for.
	Schemas map[string]Schema
	// Typed says that schemas are given to those who require them.
	Typed bool
}

// Condition is a condition for the composite's status.
type Condition struct {
	Type, Reason, Message string
	Status                Status
}

// Status is the status of a condition.
type Status int

// What a condition may be.
const (
	StatusUnknown Status = iota
	StatusTrue
	StatusFalse
)
