// Package resourcetype reads the public schemas of AWS's resource types, as the CloudFormation registry
// publishes them: the properties of a resource, which of them AWS sets, which can only be set at creation,
// and what the handlers of the type can do.
//
// Pure: it decides from values alone.
package resourcetype

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Type is the schema of a resource type.
type Type struct {
	// Name is the type's name, such as AWS::EC2::VPC.
	Name        string `json:"typeName"`
	Description string `json:"description"`
	// Schema is the schema of a resource: an object with the resource's properties.
	Schema
	// Definitions are the schemas that references name.
	Definitions map[string]*Schema `json:"definitions"`
	// PrimaryIdentifier are the properties that identify a resource, in the order that Cloud Control joins their values
	// in, with "|".
	PrimaryIdentifier []Path `json:"primaryIdentifier"`
	// ReadOnlyProperties are set by AWS, and must not be in the desired state.
	ReadOnlyProperties []Path `json:"readOnlyProperties"`
	// WriteOnlyProperties are not returned by reads.
	WriteOnlyProperties []Path `json:"writeOnlyProperties"`
	// CreateOnlyProperties cannot be changed; ConditionalCreateOnlyProperties only in some cases, which the
	// schema does not tell.
	CreateOnlyProperties            []Path `json:"createOnlyProperties"`
	ConditionalCreateOnlyProperties []Path `json:"conditionalCreateOnlyProperties"`
	DeprecatedProperties            []Path `json:"deprecatedProperties"`
	// IgnoredProperties do not count in reads. AWS's schemas do not have them: see package override.
	IgnoredProperties []Path `json:"-"`
	// PropertyTransform has a JSONata expression by property: how AWS changes what a user specifies.
	PropertyTransform map[string]string `json:"propertyTransform"`
	Tagging           Tagging           `json:"tagging"`
	// Handlers are what Cloud Control can do with resources of the type.
	Handlers map[Verb]Handler `json:"handlers"`
}

// Schema is a JSON schema of the registry.
type Schema struct {
	// Ref is a reference to a definition, #/definitions/NAME; other fields may be set beside it.
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Types       Types  `json:"type"`

	Properties           map[string]*Schema `json:"properties"`
	PatternProperties    map[string]*Schema `json:"patternProperties"`
	AdditionalProperties *SchemaOrBool      `json:"additionalProperties"`
	Required             []string           `json:"required"`
	MinProperties        *int64             `json:"minProperties"`
	MaxProperties        *int64             `json:"maxProperties"`

	Items       *Schema `json:"items"`
	MinItems    *int64  `json:"minItems"`
	MaxItems    *int64  `json:"maxItems"`
	UniqueItems bool    `json:"uniqueItems"`
	// InsertionOrder is false if the order of an array's items has no meaning; nil stands for true.
	InsertionOrder *bool `json:"insertionOrder"`
	// ArrayType is "AttributeList" for an array that may be returned with further items, which AWS adds.
	ArrayType string `json:"arrayType"`

	Enum []json.RawMessage `json:"enum"`
	// EnumCaseInsensitive are values that AWS accepts in any case.
	EnumCaseInsensitive []json.RawMessage `json:"enumCaseInsensitive"`
	Const               json.RawMessage   `json:"const"`
	Default             json.RawMessage   `json:"default"`
	Pattern             string            `json:"pattern"`
	Format              string            `json:"format"`
	MinLength           *int64            `json:"minLength"`
	MaxLength           *int64            `json:"maxLength"`
	Minimum             *json.Number      `json:"minimum"`
	Maximum             *json.Number      `json:"maximum"`
	MultipleOf          *json.Number      `json:"multipleOf"`

	// DependentRequired are the properties that must be there if another one is; DependentExcluded the ones that must
	// not be.
	DependentRequired map[string][]string `json:"dependentRequired"`
	DependentExcluded map[string][]string `json:"dependentExcluded"`
	// RequiredXor are properties: exactly one must be there; RequiredOr, at least one.
	RequiredXor []string `json:"requiredXor"`
	RequiredOr  []string `json:"requiredOr"`
	// Dependencies, If and Not are rules that a CustomResourceDefinition cannot express.
	Dependencies json.RawMessage `json:"dependencies"`
	If           json.RawMessage `json:"if"`
	Not          json.RawMessage `json:"not"`

	OneOf []*Schema `json:"oneOf"`
	AnyOf []*Schema `json:"anyOf"`
	AllOf []*Schema `json:"allOf"`
	// RelationshipRef is the property of another type that this takes its value from.
	RelationshipRef *Relationship `json:"relationshipRef"`
}

// Relationship names a property of a type.
type Relationship struct {
	TypeName     string `json:"typeName"`
	PropertyPath Path   `json:"propertyPath"`
}

// Tagging is how resources of a type are tagged.
type Tagging struct {
	Taggable    bool `json:"taggable"`
	TagOnCreate bool `json:"tagOnCreate"`
	// TagUpdatable reports whether tags can be changed after the creation.
	TagUpdatable bool `json:"tagUpdatable"`
	// TagProperty is the property with the tags: an array of Key and Value, or a map.
	TagProperty Path `json:"tagProperty"`
	// Permissions are the IAM actions for tags.
	Permissions []string `json:"permissions"`
}

// UnmarshalJSON reads how resources are tagged. What the schema does not say is as the registry defines it.
func (t *Tagging) UnmarshalJSON(raw []byte) error {
	type plain Tagging
	read := plain{Taggable: true, TagOnCreate: true, TagUpdatable: true, TagProperty: Path{"Tags"}}
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	*t = Tagging(read)
	if !t.Taggable {
		*t = Tagging{}
	}
	return nil
}

// Verb is what a handler does.
type Verb string

// Verbs.
const (
	Create Verb = "create"
	Read   Verb = "read"
	Update Verb = "update"
	Delete Verb = "delete"
	List   Verb = "list"
)

// Handler is what Cloud Control needs for a verb.
type Handler struct {
	// Permissions are the IAM actions that the handler calls with the caller's credentials.
	Permissions []string `json:"permissions"`
	// TimeoutInMinutes is how long the handler may take; 0 stands for 120 minutes.
	TimeoutInMinutes int `json:"timeoutInMinutes"`
	// HandlerSchema is what a list needs to be given in its ResourceModel; nil if nothing.
	HandlerSchema *Schema `json:"handlerSchema"`
}

// Path is the names of nested properties. "*" stands for each item of an array or each value of a map.
type Path []string

// UnmarshalJSON reads a path such as /properties/Tags/*/Key.
func (p *Path) UnmarshalJSON(raw []byte) error {
	var pointer string
	if err := json.Unmarshal(raw, &pointer); err != nil {
		return err
	}
	*p = nil
	for _, name := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(pointer, "/properties"), "/"), "/") {
		*p = append(*p, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return nil
}

// String returns the path with dots, such as Tags.*.Key.
func (p Path) String() string { return strings.Join(p, ".") }

// Types are the JSON types that a value may have.
type Types []string

// UnmarshalJSON reads one type or a list of types.
func (t *Types) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(t))
	}
	var one string
	err := json.Unmarshal(raw, &one)
	*t = Types{one}
	return err
}

// SchemaOrBool is a schema, or whether anything is allowed.
type SchemaOrBool struct {
	Schema *Schema
	Allows bool
}

// UnmarshalJSON reads a schema or a boolean.
func (s *SchemaOrBool) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.Allows) == nil {
		return nil
	}
	s.Allows, s.Schema = true, &Schema{}
	return json.Unmarshal(raw, s.Schema)
}

// Parse reads the schema of a resource type.
func Parse(raw []byte) (*Type, error) {
	var t Type
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("read the schema of a resource type: %w", err)
	}
	if t.Name == "" || len(t.PrimaryIdentifier) == 0 {
		return nil, fmt.Errorf("read the schema of the resource type %q: it has no name or no primary identifier", t.Name)
	}
	if err := t.completeTagging(raw); err != nil {
		return nil, err
	}
	return &t, nil
}

// The older field taggable is for a type that does not say how its resources are tagged. What its properties contradict
// is corrected.
func (t *Type) completeTagging(raw []byte) error {
	var older struct {
		Tagging  json.RawMessage `json:"tagging"`
		Taggable *bool           `json:"taggable"`
	}
	if err := json.Unmarshal(raw, &older); err != nil {
		return err
	}
	if older.Tagging == nil && (older.Taggable == nil || *older.Taggable) {
		t.Tagging = Tagging{Taggable: true, TagOnCreate: true, TagUpdatable: true, TagProperty: Path{"Tags"}}
	}
	if t.Tagging.Taggable && len(t.At(t.Tagging.TagProperty)) == 0 {
		t.Tagging = Tagging{}
	}
	return nil
}

// Resolve returns the schema that a reference stands for, or the schema itself. It returns nil for a
// reference that names nothing.
func (t *Type) Resolve(s *Schema) *Schema {
	for range len(t.Definitions) + 1 {
		if s == nil || s.Ref == "" {
			return s
		}
		s = t.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
	}
	return nil
}
