package call

// Schema is the OpenAPI schema of a kind, as the API server publishes it.
type Schema struct {
	// Digest is the digest of the schema; empty if there is no such kind.
	Digest string
	// Read decodes the schema. The caller owns the result.
	Read func() (map[string]any, error)
}

// SchemaSelector selects the schema of a kind.
type SchemaSelector struct{ APIVersion, Kind string }

// ResourceSelector selects one object by name, or objects by labels. The namespace of a
// cluster-scoped object is empty.
type ResourceSelector struct {
	APIVersion, Kind, Namespace, Name string
	// Labels selects objects by labels instead of by Name, unless it is nil.
	Labels map[string]string
}

// Requirements are the resources and schemas that a function requires, by keys that it
// chooses. The function is called again with them until its requirements are stable.
type Requirements struct {
	Resources map[string]ResourceSelector
	Schemas   map[string]SchemaSelector
}

// Required contains the resources and schemas that were read for a function's requirements.
type Required struct {
	// Resources are the objects that exist, by the key of the requirement.
	Resources map[string][]map[string]any
	// Schemas are by the key of the requirement.
	Schemas map[string]Schema
	// SchemasSupported says that the control plane supports requirements of schemas.
	SchemasSupported bool
}

// Condition is a condition for the composite's status.
type Condition struct {
	Type, Reason, Message string
	Status                Status
}

// Status is the status of a condition.
type Status int

// The statuses of conditions.
const (
	StatusUnknown Status = iota
	StatusTrue
	StatusFalse
)
